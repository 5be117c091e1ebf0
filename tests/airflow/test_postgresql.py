"""Airflow on a real PostgreSQL, by one setting. Needs its server programs (Debian: postgresql) on this machine."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from lakehouse.airflow import api, members
from lakehouse.process import find_free_port, is_accepting

from .real import Project

pytestmark = pytest.mark.airflow

PASSWORD = "a%b$HOME@c/d:e"
PROGRAMS = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), os.environ.get("PATH", ""))  # noqa: PTH207
INITDB, POSTGRES = shutil.which("initdb", path=PROGRAMS), shutil.which("postgres", path=PROGRAMS)


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of a new server that asks for a password; PostgreSQL refuses to run as root."""
    if INITDB is None or POSTGRES is None:
        pytest.skip("found no PostgreSQL server on this machine")
    user = "postgres" if os.geteuid() == 0 else None
    folder, port = Path(tempfile.mkdtemp(prefix="lakehouse-postgresql-")), find_free_port()
    (folder / "password").write_text(PASSWORD)
    if user:
        for path in (folder, folder / "password"):
            shutil.chown(path, user)
    data = str(folder / "data")
    made = [INITDB, "-D", data, "-U", "me", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
    subprocess.run(made, user=user, cwd=folder, check=True, capture_output=True)
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    command = [POSTGRES, "-D", data, "-p", str(port), *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, user=user, cwd=folder, stdout=log, stderr=log)
    try:
        while not is_accepting(f"127.0.0.1:{port}"):
            assert server.poll() is None, (folder / "log").read_text()
        yield f"postgresql+psycopg2://me:{quote(PASSWORD, safe='$')}@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


def test_up_on_postgresql_and_its_password_is_nowhere_else(tmp_path: Path, database: str) -> None:
    project = Project.make(tmp_path, more=f'database = "{database}"\n')
    try:
        code, said = project.run("up")
        assert code == 0, said
        bearer = api.sign_in(project.url, "admin", project.password("admin"))
        assert project.json("status")["healthy"]
        assert api.ask_dags(project.url, bearer).import_errors == {}
        assert not (project.home / "airflow.db").exists()
        secret = quote(PASSWORD, safe="$")
        for shown in (said, *(path.read_text(errors="replace") for path in project.home.rglob("*.log"))):
            assert PASSWORD not in shown
            assert secret not in shown
        for process in members.processes_of_home(project.home):
            assert secret not in " ".join([*process.cmdline(), *process.environ().values()])
    finally:
        project.down()


def test_a_database_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    project = Project.make(tmp_path, more=f'database = "postgresql://me:hush@127.0.0.1:{find_free_port()}/none"\n')
    try:
        code, said = project.run("up")
        assert code == 1
        assert "`airflow db migrate` ended with code 1" in said
        assert "airflow.database" in said
        assert "refused" in said
        assert "hush" not in said
        assert members.processes_of_home(project.home) == []
    finally:
        project.down()
