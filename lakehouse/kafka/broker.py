"""The embedded broker: a real Kafka (KRaft, one node) as a child process, with its data in one folder.

    with Broker(folder) as broker:
        ...  broker.bootstrap_servers

Ends with its parent, however that ends, unless started with ``detach=True``; then ``find(folder)`` returns it.
Its records and its cluster id stay from start to start.
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
    """A broker process that is alive. ``created`` is the process's start in seconds since 1970."""

    folder: Path
    pid: int
    created: float
    port: int

    @property
    def bootstrap_servers(self) -> str:
        """The address that a client connects to."""
        return f"{process.HOST}:{self.port}"

    def stop(self) -> None:
        """End it, by force after 15 seconds. Does nothing if it is gone or its pid belongs to another process now."""
        found = process.identify(self.pid, self.created, _mark(self.folder))
        if found is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            found.terminate()
            try:
                found.wait(STOP_TIMEOUT_SECONDS)
            except psutil.TimeoutExpired:
                found.kill()
                found.wait(STOP_TIMEOUT_SECONDS)


def find(folder: Path) -> RunningBroker | None:
    """The broker that runs on ``folder``; None if none does, whatever an old state file says."""
    folder = folder.resolve()
    try:
        state = json.loads(_state_file(folder).read_text())
        running = RunningBroker(folder, int(state["pid"]), float(state["created"]), int(state["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if process.identify(running.pid, running.created, _mark(folder)) else None


class Broker:
    """The broker of ``folder``, on ``port`` of 127.0.0.1 (default: the last start's port if free, else any)."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder.resolve()
        self._wanted_port = port
        self._running: RunningBroker | None = None
        self._detached = False

    @property
    def bootstrap_servers(self) -> str:
        """The address that a client connects to. Raises BrokerError if this broker was not started."""
        if self._running is None:
            raise BrokerError(
                f"The broker of {self.folder} was not started; call start() first, or find() a running one."
            )
        return self._running.bootstrap_servers

    def start(self, detach: bool = False, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start it and wait until it answers. ``detach``: it keeps running when this process ends.

        Raises BrokerError: a broker already runs on the folder, the port is in use, or Kafka did not come up.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder):
            if other := find(self.folder):
                raise BrokerError(
                    f"A broker is already running on {self.folder}: pid {other.pid}, port {other.port}. "
                    f"Use it ({other.bootstrap_servers}), stop it first, or give another folder."
                )
            port = self._choose_port()
            server.write_settings(self.folder, port, process.free_port())
            server.format_storage(self.folder)
            log_start = _size(server.log_file(self.folder))
            child = process.spawn(server.command(self.folder), server.output_file(self.folder), outlive=detach)
            self._running = _note(self.folder, child.pid, port)
            self._detached = detach
            if not detach:
                atexit.register(self._stop_at_exit, os.getpid())
            try:
                self._wait(child, timeout_seconds, log_start)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End it. Only the process that this object started is touched; safe to call twice."""
        running, self._running = self._running, None
        if running:
            running.stop()
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
        if os.getpid() == owner_pid:  # a forked child runs the same handlers and must not end its parent's broker
            self.stop()

    def _choose_port(self) -> int:
        last = 0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            last = int(json.loads(_state_file(self.folder).read_text())["port"])
        port = self._wanted_port or last
        # A killed process holds its port for a moment after the process itself is gone.
        deadline = time.monotonic() + (PORT_PATIENCE_SECONDS if port == last else 0.0)
        while 0 < port < 65536:
            if process.is_free(port):
                return port
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        if self._wanted_port is None:
            return process.free_port()
        raise BrokerError(
            f"Port {port} on {process.HOST} is in use{process.user_of(port)}; expected a free one. "
            "Stop what uses it, set another (setting kafka.port), or leave it out for any free port."
        )

    def _wait(self, child: subprocess.Popen[bytes], timeout_seconds: float, log_start: int) -> None:
        deadline = time.monotonic() + timeout_seconds
        while child.poll() is None and time.monotonic() < deadline:
            if _answers(self.bootstrap_servers):
                return
            time.sleep(0.05)
        code = child.poll()
        what = f"ended with code {code}" if code is not None else f"did not answer within {timeout_seconds:g} s"
        raise BrokerError(
            f"The embedded Kafka on {self.folder} {what}; expected it to answer on {self.bootstrap_servers}. "
            f"The whole log: {server.log_file(self.folder)}. Its last relevant "
            f"lines:\n{_relevant(self.folder, log_start)}"
        )


def _mark(folder: Path) -> str:
    """The part of the broker's command line that no other folder's broker has."""
    return server.command_mark(folder)


def _state_file(folder: Path) -> Path:
    return folder / "broker.json"


def _note(folder: Path, pid: int, port: int) -> RunningBroker:
    try:
        created = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:  # ended at once; the wait that follows says why
        created = 0.0
    write_durably(_state_file(folder), json.dumps({"pid": pid, "created": created, "port": port}) + "\n")
    return RunningBroker(folder, pid, created, port)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Allow one start at a time on a folder; the lock ends with the process that holds it."""
    with (folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _answers(bootstrap_servers: str) -> bool:
    if not process.accepts(bootstrap_servers):  # cheap, and keeps the client from logging every refusal
        return False
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _relevant(folder: Path, log_start: int) -> str:
    """The lines of this start's log that say what went wrong, or else its last lines."""
    lines = []
    if server.output_file(folder).is_file():
        lines = server.output_file(folder).read_text(errors="replace").splitlines()
    if server.log_file(folder).is_file():
        with server.log_file(folder).open("rb") as log:
            log.seek(log_start if log_start <= _size(server.log_file(folder)) else 0)
            lines += log.read().decode(errors="replace").splitlines()
    bad = [
        line for line in lines if any(word in line for word in (" ERROR ", " FATAL ", " WARN ", "Exception", "Error:"))
    ]
    return "\n".join(f"    {line}" for line in (bad or lines)[-LINES_SHOWN:]) or "    (nothing was logged)"
