"""The unit for systemd: systemd reads it without a complaint, and it does what the docs say."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "infra" / "systemd" / "lakehouse.service"


def test_it_stops_lakehouse_alone_and_starts_again_what_may_work_the_next_time() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert settings["KillMode"] == "mixed"
    assert settings["Restart"] == "on-failure"
    assert settings["RestartPreventExitStatus"] == "2"
    assert settings["StartLimitIntervalSec"] == "0", "an outage of Kafka may last longer than some starts"
    assert settings["ExecStart"].endswith("lakehouse run --app app.py")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_reads_it(tmp_path: Path) -> None:
    program = tmp_path / "lakehouse"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/srv/lakehouse/.venv/bin/lakehouse", str(program)))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in process.stderr.splitlines() if UNIT.name in line]
    assert complaints == []
