"""pip says how far it is; its own lines are shown if it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakehouse.setup import packages
from lakehouse.setup.packages import describe_pip, run_pip

LOCK = "# a lock\nalpha==1.0 \\\n    --hash=sha256:00\nbeta-b==2.0 \\\n    --hash=sha256:11\n    # via alpha==1.0\n"
SLOW = "import time; print('Collecting alpha==1.0', flush=True); time.sleep(0.5); print('no such wheel')"


def test_how_far_pip_is() -> None:
    collecting = "Collecting alpha==1.0\n  Downloading alpha.whl (1 kB)\nCollecting beta-b==2.0\n"
    assert describe_pip("", 2) == "fetching package 0 of 2"
    assert describe_pip(collecting, 2) == "fetching package 2 of 2"
    assert describe_pip(f"{collecting}Installing collected packages: alpha, beta-b\n", 2) == "installing 2 packages"


def test_pip_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "SAY_SECONDS", 0.3)
    (tmp_path / "lock").write_text(LOCK)
    said: list[str] = []
    assert run_pip([sys.executable, "-c", SLOW], tmp_path / "lock", said.append) == 0
    assert said
    assert {line.split(",")[0] for line in said} == {"fetching package 1 of 2"}


def test_after_a_failure_pips_own_lines_are_shown(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(LOCK)
    said: list[str] = []
    assert run_pip([sys.executable, "-c", f"{SLOW}; exit(3)"], tmp_path / "lock", said.append) == 3
    assert said[-2:] == ["Collecting alpha==1.0", "no such wheel"]
