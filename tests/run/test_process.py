"""A process is found again by its pid, whatever its machine's clock does; another of that pid is not taken for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lakehouse.airflow import service
from lakehouse.airflow.home import Home
from lakehouse.airflow.supervisor import STATE_FILE, Spec
from lakehouse.kafka.embedded import server
from lakehouse.kafka.embedded.broker import Broker, find_broker
from lakehouse.process import identify_process, spawn_child, start_mark

linux = pytest.importorskip("psutil._pslinux")
SLEEP = "import time; time.sleep(60)"
HOUR = 3600


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments])


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[psutil.Process]:
    """A process with the argument by which a broker of the folder is known."""
    running = start("-c", SLEEP, server.broker_command_mark(tmp_path))
    yield psutil.Process(running.pid)
    running.kill()
    running.wait()


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The time at which the machine started, by the clock of now, from which psutil counts."""
    before = linux.boot_time
    monkeypatch.setattr(linux, "boot_time", lambda: before() + seconds)


def test_a_broker_is_found_after_the_clock_was_set(
    tmp_path: Path, marked: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    Broker(tmp_path)._write_state(marked.pid, 1)
    for seconds in (HOUR, -3 * HOUR):
        set_clock(monkeypatch, seconds)
        found = find_broker(tmp_path)
        assert found is not None
        assert found.pid == marked.pid


def test_a_broker_is_another_than_the_one_before_with_its_pid(tmp_path: Path, marked: psutil.Process) -> None:
    Broker(tmp_path)._write_state(marked.pid, 1)
    state_file = tmp_path / "broker.json"
    state = json.loads(state_file.read_text())
    boot_id, ticks = state["start"].split()
    for other in (f"{boot_id} {int(ticks) - 1}", f"another {ticks}"):
        state_file.write_text(json.dumps({**state, "start": other}))
        assert find_broker(tmp_path) is None


def test_a_state_without_a_mark_counts_by_the_clock(
    tmp_path: Path, marked: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before have written it, and other systems than Linux do."""
    argument, created = server.broker_command_mark(tmp_path), marked.create_time()
    assert identify_process(marked.pid, created + 1, argument) is not None
    assert identify_process(marked.pid, created - HOUR, argument) is None
    assert identify_process(marked.pid, created, "another argument") is None
    set_clock(monkeypatch, HOUR)
    assert identify_process(marked.pid, created, argument) is None


def test_a_process_is_known_from_its_first_moment(tmp_path: Path) -> None:
    """Linux shows no arguments while it begins its program; of these processes, some are seen in that instant."""
    argument = server.broker_command_mark(tmp_path)
    for _ in range(50):
        with subprocess.Popen([sys.executable, "-c", SLEEP, argument]) as running:
            try:
                assert identify_process(running.pid, 0, argument, start_mark(running.pid)) is not None
            finally:
                running.kill()


def test_a_process_that_is_gone_has_no_mark() -> None:
    running = start("-c", "")
    running.wait()
    assert start_mark(running.pid) == ""
    assert start_mark(os.getpid()) != ""


def test_airflow_is_found_after_the_clock_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "address.json").write_text('{"url": "http://127.0.0.1:9", "port": 9}')
    Spec(
        {"part": [sys.executable, "-c", SLEEP]}, dict(os.environ), str(tmp_path), str(tmp_path / "logs"),
        grace_seconds=1.0,
    ).write(tmp_path)  # fmt: skip
    supervisor = start("-m", "lakehouse.airflow.supervisor", str(tmp_path))
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / STATE_FILE).is_file():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        set_clock(monkeypatch, HOUR)
        found = service.find_running(home)
        assert found is not None
        assert found.pid == supervisor.pid
    finally:
        supervisor.terminate()
        supervisor.wait()
    assert service.find_running(home) is None


def test_the_output_of_a_server_is_private(tmp_path: Path) -> None:
    """Java repeats variables with options there."""
    output = tmp_path / "broker.out"
    output.touch(mode=0o644)
    child = spawn_child(["sh", "-c", "echo $MINE"], output, outlive=True, variables={"MINE": "hush"})
    child.wait()
    assert output.read_text() == "hush\n"
    assert output.stat().st_mode & 0o777 == 0o600
