"""A folder or a file of another user is a message that names it, and no trace.

The command runs as the user of the tests. Root may read and write everything: it gives that right up first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.semantics.record import Record
from tests.written_bronze import write_bronze

# util-linux has it, on every Linux; without the two capabilities a file's mode counts for root, too.
PLAIN = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string")
app = lh.app(orders.group_by("customer").agg(n=lh.count()).table("totals"))
"""
RUN = "run app.py --until caught-up"
COUNT = "query SELECT_count(*)_FROM_bronze.orders"


def lakehouse(folder: Path, line: str, **environ: str) -> tuple[int, str]:
    """Run a command line in a folder; return its exit code and what it printed."""
    process = subprocess.run(
        [*PLAIN, sys.executable, "-m", "lakehouse.cli.main", *(word.replace("_", " ") for word in line.split())],
        cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    return process.returncode, process.stdout + process.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An application, its settings, and a lake with three records."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "lakehouse.toml").write_text('[lake]\npath = "lake"\n')
    value = json.dumps({"customer": "ann"}).encode()
    write_bronze(tmp_path / "lake", [Record("orders", "id", 0, n, n, b"k", value, 1, n) for n in range(3)])
    with Lease(Layout(str(tmp_path / "lake")).lease("ingest"), "bronze"):
        return tmp_path


@pytest.mark.parametrize(
    ("line", "closed"), [("status", "lake/bronze"), (COUNT, "lake"), ("look tables", "lake/bronze/records/_delta_log")]
)
def test_a_lake_that_may_not_be_read(folder: Path, line: str, closed: str) -> None:
    (folder / closed).chmod(0)
    code, said = lakehouse(folder, line)
    (folder / closed).chmod(0o755)
    assert code == 1
    assert said.startswith(f"error: {folder / closed}"), said
    assert ": Permission denied: this user may not read or write it; change its owner" in said
    assert len(said.splitlines()) == 1


def test_a_file_of_rows_that_may_not_be_read(folder: Path) -> None:
    (file,) = (folder / "lake" / "bronze").rglob("*.parquet")
    file.chmod(0)
    code, said = lakehouse(folder, COUNT)
    assert code != 0
    assert len(said.splitlines()) == 1
    assert said.startswith(f"error: {file}: Permission denied")


@pytest.mark.parametrize("closed", ["lake", "lake/control/leases/ingest.lock"])
def test_a_lake_that_may_not_be_written_before_kafka_and_spark_start(folder: Path, closed: str) -> None:
    """The lock is that of another user who ran the application before."""
    (folder / closed).chmod(0o555 if closed == "lake" else 0o444)
    code, said = lakehouse(folder, RUN)
    (folder / closed).chmod(0o755)
    assert code != 0
    assert f"{folder / closed}" in said
    assert "Permission denied" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("kafka up", ".kafka: Permission denied: this user may not read or write it"),
        ("init shop", "shop: Permission denied: this user may not read or write it"),
        ("airflow up --app app.py", "Airflow's home {}/.lakehouse/airflow can't be made: Permission denied. Give it"),
        ("setup", "{}/jars can't be filled: Permission denied. Give the jars another folder: LAKEHOUSE_JARS"),
    ],
)
def test_a_folder_in_which_nothing_can_be_made(folder: Path, line: str, said: str) -> None:
    environ = {"LAKEHOUSE_JARS": str(folder / "jars")} if line == "setup" else {}
    folder.chmod(0o555)
    code, told = lakehouse(folder, line, **environ)
    folder.chmod(0o755)
    assert code != 0
    assert said.format(folder) in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("name", ["lakehouse.toml", "app.py"])
def test_a_file_of_the_project_that_may_not_be_read(folder: Path, name: str) -> None:
    (folder / name).chmod(0)
    code, told = lakehouse(folder, RUN)
    assert code == 2
    assert f"{name}: can't be read: Permission denied. Expected a" in told
    assert len(told.splitlines()) == 1
