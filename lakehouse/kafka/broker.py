"""The embedded broker: a real Kafka (KRaft, one node) as a child process, with its data in one folder.

    with Broker(folder) as broker:
        ...  broker.bootstrap_servers

The broker ends with its parent, however that ends, unless started with ``detach=True``; then ``find_broker(folder)``
returns it. Its records and its cluster id survive restarts.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakehouse.durable import write_durably
from lakehouse.errors import BrokerError
from lakehouse.kafka import process, server

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 15.0
PORT_PATIENCE_SECONDS = 2.0
LINES_SHOWN = 12


@dataclass(frozen=True)
class RunningBroker:
    """A broker process that is alive. ``created``: when the process started, in seconds since 1970."""

    folder: Path
    pid: int
    created: float
    port: int

    @property
    def bootstrap_servers(self) -> str:
        """The address that a client connects to."""
        return f"{process.HOST}:{self.port}"

    def stop(self) -> None:
        """End the process, by force after 15 seconds. Do nothing if it is gone, or its pid belongs to another one."""
        broker_process = process.identify_process(self.pid, self.created, _command_mark(self.folder))
        if broker_process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            broker_process.terminate()
            try:
                broker_process.wait(STOP_TIMEOUT_SECONDS)
            except psutil.TimeoutExpired:
                broker_process.kill()
                broker_process.wait(STOP_TIMEOUT_SECONDS)


def find_broker(folder: Path) -> RunningBroker | None:
    """Return the broker that runs on ``folder``; None if none does, even if an old state file is there."""
    folder = folder.resolve()
    try:
        broker_state = json.loads(_state_file(folder).read_text())
        running_broker = RunningBroker(
            folder, int(broker_state["pid"]), float(broker_state["created"]), int(broker_state["port"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (
        running_broker
        if process.identify_process(running_broker.pid, running_broker.created, _command_mark(folder))
        else None
    )


class Broker:
    """The broker of ``folder``, on ``port`` of 127.0.0.1 (default: the last start's port if it is free, else any)."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder.resolve()
        self._wanted_port = port
        self._running: RunningBroker | None = None
        self._detached = False

    @property
    def bootstrap_servers(self) -> str:
        """The address that a client connects to. Raises BrokerError if this object has not started a broker."""
        if self._running is None:
            raise BrokerError(
                f"The broker of {self.folder} was not started; call start() first, or find() a running one."
            )
        return self._running.bootstrap_servers

    def start(self, detach: bool = False, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the broker and wait until it answers. ``detach``: it keeps running when this process ends.

        Raises BrokerError if a broker already runs on the folder, the port is in use, or Kafka does not come up.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with _start_lock(self.folder):
            if running_broker := find_broker(self.folder):
                raise BrokerError(
                    f"A broker is already running on {self.folder}: pid {running_broker.pid}, port "
                    f"{running_broker.port}. "
                    f"Use it ({running_broker.bootstrap_servers}), stop it first, or give another folder."
                )
            port = self._choose_port()
            server.write_settings(self.folder, port, process.find_free_port())
            server.format_storage(self.folder)
            log_start = _file_size(server.broker_log_file(self.folder))
            child_process = process.spawn_child(
                server.broker_command(self.folder), server.broker_output_file(self.folder), outlive=detach
            )
            self._running = _write_state(self.folder, child_process.pid, port)
            self._detached = detach
            if not detach:
                atexit.register(self._stop_at_exit, os.getpid())
            try:
                self._wait(child_process, timeout_seconds, log_start)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End the broker that this object started, and no other. Calling it twice is safe."""
        running_broker, self._running = self._running, None
        if running_broker:
            running_broker.stop()
        atexit.unregister(self._stop_at_exit)

    def __enter__(self) -> Broker:
        if self._running is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._detached:
            self.stop()

    def _stop_at_exit(self, owner_pid: int) -> None:
        if os.getpid() == owner_pid:  # a forked child runs this handler too, and must not end its parent's broker
            self.stop()

    def _choose_port(self) -> int:
        last_port = 0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            last_port = int(json.loads(_state_file(self.folder).read_text())["port"])
        port = self._wanted_port or last_port
        # A killed process holds its port for a moment after the process itself is gone.
        deadline = time.monotonic() + (PORT_PATIENCE_SECONDS if port == last_port else 0.0)
        while 0 < port < 65536:
            if process.is_free(port):
                return port
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        if self._wanted_port is None:
            return process.find_free_port()
        raise BrokerError(
            f"Port {port} on {process.HOST} is in use{process.describe_port_user(port)}; expected a free one. "
            "Stop what uses it, set another (setting kafka.port), or leave it out for any free port."
        )

    def _wait(self, child_process: subprocess.Popen[bytes], timeout_seconds: float, log_start: int) -> None:
        deadline = time.monotonic() + timeout_seconds
        while child_process.poll() is None and time.monotonic() < deadline:
            if _is_answering(self.bootstrap_servers):
                return
            time.sleep(0.05)
        exit_code = child_process.poll()
        outcome = (
            f"ended with code {exit_code}" if exit_code is not None else f"did not answer within {timeout_seconds:g} s"
        )
        raise BrokerError(
            f"The embedded Kafka on {self.folder} {outcome}; expected it to answer on {self.bootstrap_servers}. "
            f"The whole log: {server.broker_log_file(self.folder)}. Its last relevant "
            f"lines:\n{_relevant_lines(self.folder, log_start)}"
        )


def _command_mark(folder: Path) -> str:
    """Return an argument of the broker's command line that identifies the folder."""
    return server.broker_command_mark(folder)


def _state_file(folder: Path) -> Path:
    return folder / "broker.json"


def _write_state(folder: Path, pid: int, port: int) -> RunningBroker:
    try:
        created_seconds = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:  # it ended at once; the following wait reports why
        created_seconds = 0.0
    write_durably(_state_file(folder), json.dumps({"pid": pid, "created": created_seconds, "port": port}) + "\n")
    return RunningBroker(folder, pid, created_seconds, port)


@contextlib.contextmanager
def _start_lock(folder: Path) -> Iterator[None]:
    """Allow one start at a time on a folder; the lock ends with the process that holds it."""
    with (folder / "start.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def _is_answering(bootstrap_servers: str) -> bool:
    if not process.is_accepting(bootstrap_servers):  # cheap, and keeps the client from logging every refusal
        return False
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _relevant_lines(folder: Path, log_start: int) -> str:
    """Return the lines of this start's log with errors; if there are none, its last lines."""
    log_lines = []
    if server.broker_output_file(folder).is_file():
        log_lines = server.broker_output_file(folder).read_text(errors="replace").splitlines()
    if server.broker_log_file(folder).is_file():
        with server.broker_log_file(folder).open("rb") as broker_log:
            broker_log.seek(log_start if log_start <= _file_size(server.broker_log_file(folder)) else 0)
            log_lines += broker_log.read().decode(errors="replace").splitlines()
    error_lines = [
        log_line
        for log_line in log_lines
        if any(word in log_line for word in (" ERROR ", " FATAL ", " WARN ", "Exception", "Error:"))
    ]
    return (
        "\n".join(f"    {log_line}" for log_line in (error_lines or log_lines)[-LINES_SHOWN:])
        or "    (nothing was logged)"
    )
