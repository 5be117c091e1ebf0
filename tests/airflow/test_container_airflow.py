"""What the Airflow container runs as its only process: Airflow up, until SIGTERM; then nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.airflow import members

from .real import Project

SCRIPT = Path(__file__).parents[2] / "infra" / "container" / "airflow.sh"
# The stand-in for `lakehouse`: it notes what it was asked, and its looks end as the file `looks` says, one a line.
LAKEHOUSE = """#!/bin/sh
echo "$*" >> calls
[ "$2" = status ] || exit 0
code=$(head -n 1 looks)
sed -i 1d looks
exit "${code:-1}"
"""


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Run the script with looks that end with these codes; return its exit code, and what `lakehouse` was asked."""
    for name, text in (("lakehouse", LAKEHOUSE), ("sleep", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(codes: str, *arguments: str) -> tuple[int, list[str]]:
        (tmp_path / "looks").write_text("".join(f"{code}\n" for code in codes))
        environ = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        process = subprocess.run(
            [SCRIPT, *arguments], cwd=tmp_path, env=environ, capture_output=True, timeout=60, check=False
        )
        return process.returncode, (tmp_path / "calls").read_text().splitlines()

    return run


def test_only_three_bad_looks_in_a_row_end_it(run_script: Callable[..., tuple[int, list[str]]]) -> None:
    """One may be a busy machine, and `down` would end the running tasks."""
    code, calls = run_script("0110101110", "--app", "app.py")
    assert code == 1
    assert calls == ["airflow up --app app.py", *["airflow status"] * 9, "airflow down"]


@pytest.mark.parametrize("option", [("--config", "/etc/l a.toml"), ("--config=/etc/l a.toml",)])
def test_its_looks_and_its_end_have_the_configuration_of_its_start(
    run_script: Callable[..., tuple[int, list[str]]], option: tuple[str, ...]
) -> None:
    for arguments in ((*option, "--app", "app.py"), ("--app", "app.py", *option)):
        _, calls = run_script("111", *arguments)
        assert {call for call in calls if " up " not in call} == {
            f"airflow {command} {' '.join(option)}" for command in ("status", "down")
        }


@pytest.mark.airflow
def test_it_is_up_until_sigterm(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "elsewhere")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    line = [SCRIPT, "--app", "app.py", "--config", str(project.folder / "lakehouse.toml"), "--name", "shop"]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(line, cwd=project.folder, env=environ, stdout=out, stderr=out)
        try:
            while "Airflow is healthy" not in (tmp_path / "out").read_text():
                assert process.poll() is None, (tmp_path / "out").read_text()
                time.sleep(0.5)
            assert project.json("status")["healthy"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, (tmp_path / "out").read_text()
        finally:
            process.kill()
            project.run("down")
    assert members.processes_of_home(project.home) == []


@pytest.mark.airflow
def test_it_ends_when_airflow_does(tmp_path: Path) -> None:
    """So that the container is started again."""
    project = Project.make(tmp_path / "elsewhere")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    line = [SCRIPT, "--app", "app.py", "--config", str(project.folder / "lakehouse.toml")]
    process = subprocess.Popen(line, cwd=project.folder, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        while project.run("status")[0] != 0:
            assert process.poll() is None
            time.sleep(0.5)
        project.run("down")
        _, text = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "error: Airflow is not healthy any more" in text
    finally:
        process.kill()
        project.run("down")
