"""The embedded broker: start, stop, and whatever an earlier start may have left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lakehouse.errors import BrokerError
from lakehouse.kafka.embedded.broker import Broker, RunningBroker, find_broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster


def pid_of(folder: Path) -> int:
    running = find_broker(folder)
    assert running is not None
    return running.pid


def wait_gone(pid: int, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} is still there after {seconds} s"
        time.sleep(0.05)


def stranger() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


@pytest.mark.rotated
def test_a_kill_loses_no_record_and_the_identity_stays(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with ä"
    broker = Broker(folder)
    broker.start()
    Cluster(broker.bootstrap_servers).create("kept")
    produce(broker.bootstrap_servers, {}, "kept", [ProducerRecord(b"k", b"v", 1_370_000_000_000)] * 100)
    before = Cluster(broker.bootstrap_servers).topics(["kept"])
    address = broker.bootstrap_servers
    os.kill(pid_of(folder), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while find_broker(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert find_broker(folder) is None
    with Broker(folder) as again:
        assert again.bootstrap_servers == address  # clients find it at the same address
        cluster = Cluster(again.bootstrap_servers)
        assert cluster.topics(["kept"]) == before
        assert cluster.offsets([("kept", 0)]) == {("kept", 0): (0, 100)}
    assert find_broker(folder) is None


def test_a_second_start_on_the_folder_is_refused(broker: Broker) -> None:
    with pytest.raises(BrokerError) as caught:
        Broker(broker.folder).start()
    message = str(caught.value)
    assert f"pid {pid_of(broker.folder)}" in message
    assert broker.bootstrap_servers in message
    running = find_broker(broker.folder)
    assert running is not None
    assert running.bootstrap_servers == broker.bootstrap_servers


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BrokerError, match=f"Port {port} .* in use .*kafka.port"):
            Broker(tmp_path, port).start()


@pytest.mark.parametrize("created", ["the stranger's own", "another"])
def test_another_process_with_the_pid_of_the_state_file_is_left_alone(tmp_path: Path, created: str) -> None:
    process = stranger()
    try:
        start = psutil.Process(process.pid).create_time() - (0 if created == "the stranger's own" else 1000)
        state = {"pid": process.pid, "created": start, "port": 1}
        (tmp_path / "broker.json").write_text(json.dumps(state))
        assert find_broker(tmp_path) is None
        RunningBroker(tmp_path, process.pid, start, 1).stop()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "created": 0, "port": 0}'])
def test_a_broken_state_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.json").write_text(text)
    assert find_broker(tmp_path) is None


def test_a_broker_that_cannot_start_shows_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.kafka.embedded.server.SETTINGS", "process.roles=broker,controller\nnode.id=many\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    with pytest.raises(BrokerError, match=r"(?s)ended with code 1.*broker\.log.*many"):
        Broker(tmp_path).start()
    assert find_broker(tmp_path) is None


def test_a_foreign_data_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").touch()
    with pytest.raises(BrokerError, match=r"no meta\.properties"):
        Broker(tmp_path).start()
    assert (tmp_path / "data" / "mine").exists()


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerError, match=r"JAVA_HOME.*Java 17"):
        Broker(tmp_path).start()


def test_before_the_start_there_is_no_address(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.stop()
    with pytest.raises(BrokerError, match="not started"):
        _ = broker.bootstrap_servers


CHILD = """
import sys, threading, time
from pathlib import Path
from lakehouse.kafka.embedded.broker import Broker
broker = Broker(Path(sys.argv[1]))
# The thread that starts it ends at once: the broker belongs to the process, not to the thread.
starter = threading.Thread(target=broker.start, kwargs={"detach": sys.argv[2] == "detach"})
starter.start(); starter.join()
print("up", flush=True)
if sys.argv[3] == "wait":
    time.sleep(60)
"""


def run_child(folder: Path, mode: str, then: str) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(folder), mode, then], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child


@pytest.mark.rotated
def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    child = run_child(tmp_path, "attached", "wait")
    time.sleep(0.5)
    pid = pid_of(tmp_path)
    child.kill()
    child.communicate()
    wait_gone(pid)


@pytest.mark.rotated
def test_it_ends_with_a_parent_that_ends(tmp_path: Path) -> None:
    child = run_child(tmp_path, "attached", "end")
    child.communicate(timeout=30)
    assert child.returncode == 0
    assert find_broker(tmp_path) is None


@pytest.mark.rotated
def test_detached_it_goes_on_and_can_be_found_and_stopped(tmp_path: Path) -> None:
    child = run_child(tmp_path, "detach", "end")
    child.communicate(timeout=30)
    running = find_broker(tmp_path)
    assert running is not None
    try:
        assert Cluster(running.bootstrap_servers).names() == []
    finally:
        running.stop()
    assert find_broker(tmp_path) is None
    running.stop()  # a second time does nothing
