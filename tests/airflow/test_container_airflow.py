"""What the Airflow container runs as its only process: Airflow up, until SIGTERM; then nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse.airflow import members

from .real import Project

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]
SCRIPT = Path(__file__).parents[2] / "infra" / "container" / "airflow.sh"


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
