"""`lakehouse init`: the files that it writes work."""

from __future__ import annotations

import os
import subprocess
import sys

from lakehouse.kafka.produce import parse_lines
from lakehouse.run.start.application import load_app


def test_the_application_passes_its_test(lakehouse, folder):
    assert lakehouse("init", "shop").code == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    process = subprocess.run(
        command, cwd=folder / "shop", env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "2 passed" in process.stdout


def test_its_scenario_passes(lakehouse, folder):
    lakehouse("init", "shop")
    assert lakehouse("test", "shop", "--batch", "one", "--batch", "all").out.splitlines()[-1] == "2 passed, 0 failed"


def test_its_records_can_be_produced_and_its_application_loaded(lakehouse, folder):
    lakehouse("init", "shop")
    lines = (folder / "shop" / "orders.jsonl").read_text().splitlines()
    assert len(list(parse_lines(lines, "json"))) == len(lines)
    assert [table.name for table in load_app(str(folder / "shop" / "app.py")).tables] == ["current_orders", "totals"]


def test_it_overwrites_nothing(lakehouse, folder):
    (folder / "shop").mkdir()
    actual = lakehouse("init", "shop")
    assert actual.code == 2
    assert "exists already" in actual.err
    assert list((folder / "shop").iterdir()) == []
