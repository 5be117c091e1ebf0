"""Airflow's environment: made once, from the lock, and it sees lakehouse without what lies beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import AirflowError
from lakehouse.setup import airflow, places

PACKAGE = places.PACKAGE


class Pip:
    """Stands for `venv` and `pip`: makes the files that they would make, and ends with a code."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code, self.calls = folder, 0, 0

    def run(self, argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        self.calls += 1
        (self.folder / "lib" / "python3.11" / "site-packages").mkdir(parents=True, exist_ok=True)
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / "bin" / "airflow").touch()
        return subprocess.CompletedProcess(argv, self.code)


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    fake = Pip(tmp_path / "environment")
    monkeypatch.setattr(places, "airflow_environment", lambda: fake.folder)
    monkeypatch.setattr(subprocess, "run", fake.run)
    monkeypatch.setattr(airflow, "run_pip", lambda argv, lock, say: fake.run(argv).returncode)
    return fake


def test_it_is_made_once(pip: Pip) -> None:
    said: list[str] = []
    assert airflow.set_up_airflow(said.append) == pip.folder / "bin" / "airflow"
    assert airflow.set_up_airflow(said.append) == pip.folder / "bin" / "airflow"
    assert pip.calls == 2, "the environment, and its packages"
    assert said == [f"airflow: installing Airflow into {pip.folder} (700 MB, some minutes)"]


def test_an_interrupted_installation_starts_over(pip: Pip) -> None:
    pip.code = 3
    with pytest.raises(AirflowError, match=r"ended with code 3.*Run `|run `lakehouse setup --airflow` again"):
        airflow.set_up_airflow(str)
    pip.code = 0
    airflow.set_up_airflow(str)
    assert pip.calls == 3


def test_it_sees_lakehouse_and_nothing_that_lies_beside_it(pip: Pip, tmp_path: Path, monkeypatch: Any) -> None:
    beside = tmp_path / "site-packages"
    (beside / "lakehouse").mkdir(parents=True)
    (beside / "lakehouse" / "__init__.py").write_text("")
    (beside / "other.py").write_text("")
    monkeypatch.setattr(places, "PACKAGE", beside / "lakehouse")
    airflow.set_up_airflow(str)
    airflow.set_up_airflow(str)
    path = (pip.folder / "lib" / "python3.11" / "site-packages" / "lakehouse-checkout.pth").read_text().strip()
    assert [entry.name for entry in Path(path).iterdir()] == ["lakehouse"]
    monkeypatch.undo()
    code = "import lakehouse, importlib.util; assert importlib.util.find_spec('other') is None; print(lakehouse)"
    argv, environ = [sys.executable, "-S", "-c", code], {"PYTHONPATH": path}
    process = subprocess.run(argv, env=environ, cwd="/", capture_output=True, text=True, check=True)
    assert str(beside) in process.stdout or path in process.stdout


def test_in_a_checkout_the_path_is_the_checkout(pip: Pip) -> None:
    airflow.set_up_airflow(str)
    path = pip.folder / "lib" / "python3.11" / "site-packages" / "lakehouse-checkout.pth"
    assert path.read_text() == f"{PACKAGE.parent}\n"
