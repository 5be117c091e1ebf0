"""SIGTERM ends a command within ten seconds, whatever it is doing; the next run does what was under way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import psutil
import pytest

from tests import seeds

pytestmark = pytest.mark.slow

# A function that takes two minutes for a batch, as long as there is a file.
APP = """
import time
from pathlib import Path

import lakehouse as lh


def slowly(amounts):
    for _ in range(1200):
        if not Path(__file__).with_name("slow").exists():
            break
        time.sleep(0.1)
    return amounts


orders = lh.stream("orders", key="id string", schema="city string, amount bigint")
slow = orders.map("slow_amount", slowly, "amount", type="bigint")
app = lh.app(slow.group_by("city").agg(n=lh.count(), total=lh.sum("slow_amount")).table("totals"))
"""
RECORDS = "".join(f'{{"key": "k{n}", "value": {{"city": "c{n % 3}", "amount": {n}}}}}\n' for n in range(30))
LAKEHOUSE = [sys.executable, "-m", "lakehouse.cli.main"]
TOTALS = [*LAKEHOUSE, "query", "SELECT sum(n) AS n, sum(total) AS total FROM totals", "--json"]
# A signal is looked for at once; then Java is ended, and Python goes through its ends. The rest is for a slow machine.
SECONDS_MAX = 10.0 + 15.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_FOLDER", str(tmp_path / "kafka"))
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "slow").touch()
    (tmp_path / "orders.jsonl").write_text(RECORDS)
    command = [*LAKEHOUSE, "kafka", "produce", "orders", "orders.jsonl", "--partitions", "2"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.parametrize("keep", ["off", "5 minutes"])
@pytest.mark.parametrize(("until", "code"), [((), 0), (("--until", "caught-up"), 143)], ids=["for ever", "caught up"])
def test_a_batch_that_takes_minutes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, until: tuple[str, ...], code: int, keep: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_KEEP", keep)
    errors = folder / "run.err"
    try:
        with errors.open("w") as stderr:
            job = subprocess.Popen(
                [*LAKEHOUSE, "run", "--app", "app.py", *until], cwd=folder, stdout=subprocess.DEVNULL, stderr=stderr
            )
        while "tick 1:" not in errors.read_text():
            assert job.poll() is None, errors.read_text()
            time.sleep(0.2)
        time.sleep(5)  # the table's batch has begun
        began = time.monotonic()
        job.send_signal(signal.SIGTERM)
        assert job.wait(120) == code, errors.read_text()
        seconds = time.monotonic() - began
        text = errors.read_text()
        assert seconds < SECONDS_MAX, text
        assert "Traceback" not in text, text
        assert "error:" not in text, text
        (folder / "slow").unlink()
        subprocess.run([*LAKEHOUSE, "run", "--app", "app.py", "--until", "caught-up"], cwd=folder, check=True)
        answer = subprocess.run(TOTALS, cwd=folder, check=True, capture_output=True, text=True).stdout
        assert json.loads(answer) == {"n": "30", "total": "435"}
    finally:
        subprocess.run([*LAKEHOUSE, "spark", "stop"], cwd=folder, check=False)


def test_at_any_moment_of_a_start(folder: Path) -> None:
    (folder / "slow").unlink()
    dice = Random(seeds.draw())
    for _ in range(3):
        wait_seconds = dice.uniform(0.1, 12.0)
        job = subprocess.Popen(
            [*LAKEHOUSE, "run", "--app", "app.py"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "LAKEHOUSE_SPARK_KEEP": "off"}, text=True,
        )  # fmt: skip
        time.sleep(wait_seconds)
        began, children = time.monotonic(), psutil.Process(job.pid).children(recursive=True)
        job.send_signal(signal.SIGTERM)
        _, text = job.communicate(timeout=120)
        assert time.monotonic() - began < SECONDS_MAX, (wait_seconds, text)
        # 143 before the run itself has begun, and -15 before Python has set a handler.
        assert job.returncode in (0, 143, -15), (wait_seconds, text)
        assert "Traceback" not in text, (wait_seconds, text)
        assert not psutil.wait_procs(children, timeout=15)[1], wait_seconds
