"""What happens to the machine ends a run with one message, and the next run goes on: a full disk, a killed Java."""

from __future__ import annotations

import os
import re
import shutil
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

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="city string, amount bigint")
app = lh.app(orders.group_by("city").agg(n=lh.count(), total=lh.sum("amount")).table("totals"))
"""
RECORDS = "".join(f'{{"key": "k{n}", "value": {{"city": "c{n % 3}", "amount": {n}}}}}\n' for n in range(30))
LAKEHOUSE = f"{sys.executable} -m lakehouse.cli.main"
# In a mount namespace of its own: the lake's disk has 40 MB, and all but some of them are taken.
FULL_DISK = """
set -e
mount -t tmpfs -o size=40m tmpfs "$1"
cp app.py "$1" && cd "$1"
dd if=/dev/zero of=filler bs=1k 2> dd.err || true
truncate -s -"$2"k filler
set +e
{lakehouse} run --app app.py --until caught-up > "$3/full.out" 2> "$3/full.err"; echo "full $?"
rm filler
{lakehouse} run --app app.py --until caught-up > "$3/again.out" 2> "$3/again.err"; echo "again $?"
{lakehouse} query "SELECT sum(n) AS n, sum(total) AS total FROM totals" --json
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_FOLDER", str(tmp_path / "kafka"))
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "orders.jsonl").write_text(RECORDS)
    command = [*LAKEHOUSE.split(), "kafka", "produce", "orders", "orders.jsonl", "--partitions", "2"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def is_java(process: psutil.Process) -> bool:
    try:
        return "SparkSubmit" in str(process.cmdline())
    except psutil.Error:  # it has ended since
        return False


def messages(text: str) -> list[str]:
    """The lines of stderr that are no progress."""
    return [line for line in text.splitlines() if line and not re.match(r"\S+Z info |WARNING: Using incubator", line)]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, and unshare")
def test_a_full_disk(folder: Path) -> None:
    kilobytes = Random(seeds.draw()).choice((4, 20, 40, 60, 90, 130))
    (folder / "disk").mkdir()
    script = FULL_DISK.format(lakehouse=LAKEHOUSE)
    process = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, "bash", str(folder / "disk"), str(kilobytes), str(folder)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = process.stdout.splitlines()
    assert lines[1:] == ["again 0", '{"n": "30", "total": "435"}'], (kilobytes, process.stderr)
    if lines[0] == "full 0":
        return  # it had room enough
    assert lines[0] == "full 1"
    told = messages((folder / "full.err").read_text())
    assert [line for line in told if line.startswith("error: ")] == told[-1:], (kilobytes, told)
    assert f"{folder}/disk" in told[-1]
    assert "No space left on device: the disk is full" in told[-1]
    assert not [line for line in told if "Traceback" in line or line.startswith(("\tat ", "Caused by"))]
    assert len(told) <= 10


def test_a_killed_java(folder: Path) -> None:
    with (folder / "killed.err").open("w") as errors:
        job = subprocess.Popen(
            [*LAKEHOUSE.split(), "run", "--app", "app.py"], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            while "tick 1:" not in (folder / "killed.err").read_text():
                assert job.poll() is None, (folder / "killed.err").read_text()
                time.sleep(0.2)
            time.sleep(Random(seeds.draw()).uniform(0, 5))
            (java,) = filter(is_java, psutil.Process(job.pid).children(recursive=True))
            java.send_signal(signal.SIGKILL)
            assert job.wait(120) == 1
        finally:
            job.kill()
            job.wait()
    told = messages((folder / "killed.err").read_text())
    assert len(told) == 1, told
    assert told[0].startswith("error: Spark's process has ended")


@pytest.mark.parametrize("moment", ["starting", "any"])
def test_a_java_killed_while_a_job_starts(folder: Path, moment: str) -> None:
    """Whatever the job asks of Java at that moment."""
    seconds = Random(seeds.draw()).uniform(0, 2 if moment == "starting" else 20)
    with (folder / "killed.err").open("w") as errors:
        job = subprocess.Popen(
            [*LAKEHOUSE.split(), "run", "--app", "app.py"], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            while not (javas := [*filter(is_java, psutil.Process(job.pid).children(recursive=True))]):
                assert job.poll() is None, (folder / "killed.err").read_text()
                time.sleep(0.02)
            time.sleep(seconds)
            javas[0].send_signal(signal.SIGKILL)
            assert job.wait(120) == 1, (folder / "killed.err").read_text()
        finally:
            job.kill()
            job.wait()
    told = messages((folder / "killed.err").read_text())
    assert [line for line in told if line.startswith("error: ")] == told[-1:], (seconds, told)
    assert "Traceback" not in "".join(told), (seconds, told)
