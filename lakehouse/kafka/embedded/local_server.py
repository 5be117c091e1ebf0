"""A server of this machine as a child process with all its files in one folder: started, found again, stopped.

The embedded Kafka and the embedded schema registry are such servers. A server ends with its parent, however that ends,
unless started with ``detach=True``. Its state file says which process it is; a start holds a lock on the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

import psutil

from lakehouse import process
from lakehouse.durable import lock_start, write_durably
from lakehouse.errors import LakehouseError
from lakehouse.setup.jars import without_variables
from lakehouse.setup.java_process import java_variables

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 15.0
PORT_PATIENCE_SECONDS = 2.0
LINES_SHOWN = 12


@dataclass(frozen=True)
class RunningServer(ABC):
    """A server's process that is alive. ``created``: when the process started, in seconds since 1970.

    start: the process's `start_mark`.
    """

    KIND: ClassVar[str]  # its state file is <KIND>.json
    folder: Path
    pid: int
    created: float
    port: int
    start: str = ""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address that a client connects to."""

    @property
    @abstractmethod
    def mark(self) -> str:
        """An argument of the server's command line that identifies its folder."""

    def process(self) -> psutil.Process | None:
        """Return the process; None if it is gone, or its pid belongs to another one."""
        return process.identify_process(self.pid, self.created, self.mark, self.start)

    def stop(self) -> None:
        """End the process, by force after 15 seconds. Do nothing if it is gone, or its pid belongs to another one."""
        server_process = self.process()
        if server_process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            server_process.terminate()
            try:
                server_process.wait(STOP_TIMEOUT_SECONDS)
            except psutil.TimeoutExpired:
                server_process.kill()
                server_process.wait(STOP_TIMEOUT_SECONDS)


Running = TypeVar("Running", bound=RunningServer)


def find_server(kind: type[Running], folder: Path) -> Running | None:
    """Return the server that runs on ``folder``; None if none does, even if an old state file is there."""
    folder = folder.resolve()
    try:
        state = json.loads(state_file(kind, folder).read_text())
        pid, created, port = int(state["pid"]), float(state["created"]), int(state["port"])
        running = kind(folder, pid, created, port, str(state.get("start", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if running.process() else None


def state_file(kind: type[RunningServer], folder: Path) -> Path:
    """Return the file that tells which process the server of a folder is."""
    return folder / f"{kind.KIND}.json"


class LocalServer(ABC, Generic[Running]):
    """The server of ``folder``, on ``port`` of 127.0.0.1 (default: the last start's port if it is free, else any)."""

    RUNNING: type[Running]
    ERROR: ClassVar[type[LakehouseError]]
    NAME: ClassVar[str]  # in messages: "broker"
    PROGRAM: ClassVar[str]  # in messages: "Kafka"
    SECTION: ClassVar[str]  # of the settings

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder.resolve()
        self._wanted_port = port
        self._running: Running | None = None
        self._detached = False

    @abstractmethod
    def _prepare(self, port: int) -> list[str]:
        """Write what a start needs into the folder; return the command. May raise the server's error."""

    @abstractmethod
    def _is_answering(self) -> bool:
        """Say whether the server does its work now."""

    @property
    @abstractmethod
    def _log_file(self) -> Path:
        """The file of the program's own log."""

    @property
    def _output_file(self) -> Path:
        """The file with the output of the JVM itself at the last start."""
        return self.folder / f"{self.RUNNING.KIND}.out"

    @property
    def running(self) -> Running:
        """The process that this object has started. Raises the server's error if it has not."""
        if self._running is None:
            raise self.ERROR(
                f"The {self.NAME} of {self.folder} was not started; call start() first, or find() a running one."
            )
        return self._running

    def start(self, detach: bool = False, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the server and wait until it answers. ``detach``: it keeps running when this process ends.

        Raises the server's error if one already runs on the folder, the port is in use, or it does not come up.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with lock_start(self.folder):
            if running := find_server(self.RUNNING, self.folder):
                raise self.ERROR(
                    f"A {self.NAME} is already running on {self.folder}: pid {running.pid}, port {running.port}. "
                    f"Use it ({running.address}), stop it first, or give another folder."
                )
            port = self._choose_port()
            command = self._prepare(port)
            log_start = _file_size(self._log_file)
            child_process = process.spawn_child(
                command, self._output_file, outlive=detach, folder=self.folder, variables=java_variables()
            )
            self._running = self._write_state(child_process.pid, port)
            self._detached = detach
            if not detach:
                atexit.register(self._stop_at_exit, os.getpid())
            try:
                self._wait(child_process, timeout_seconds, log_start)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End the server that this object started, and no other. Calling it twice is safe."""
        running, self._running = self._running, None
        if running:
            running.stop()
        atexit.unregister(self._stop_at_exit)

    def __enter__(self) -> Self:
        if self._running is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._detached:
            self.stop()

    def _stop_at_exit(self, owner_pid: int) -> None:
        if os.getpid() == owner_pid:  # a forked child runs this handler too, and must not end its parent's server
            self.stop()

    def _choose_port(self) -> int:
        last_port = 0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            last_port = int(json.loads(state_file(self.RUNNING, self.folder).read_text())["port"])
        port = self._wanted_port or last_port
        # A killed process holds its port for a moment after the process itself is gone.
        deadline = time.monotonic() + (PORT_PATIENCE_SECONDS if port == last_port else 0.0)
        while 0 < port < 65536:
            if process.is_port_free(port):
                return port
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        if self._wanted_port is None:
            return process.find_free_port()
        raise self.ERROR(
            f"Port {port} on {process.HOST} is in use{process.describe_port_user(port)}; expected a free one. "
            f"Stop what uses it, set another (setting {self.SECTION}.port), or leave it out for any free port."
        )

    def _write_state(self, pid: int, port: int) -> Running:
        try:
            created_seconds = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:  # it ended at once; the following wait reports why
            created_seconds = 0.0
        start = process.start_mark(pid)
        state = {"pid": pid, "created": created_seconds, "port": port, "start": start}
        write_durably(state_file(self.RUNNING, self.folder), json.dumps(state) + "\n")
        return self.RUNNING(self.folder, pid, created_seconds, port, start)

    def _wait(self, child_process: subprocess.Popen[bytes], timeout_seconds: float, log_start: int) -> None:
        deadline = time.monotonic() + timeout_seconds
        while child_process.poll() is None and time.monotonic() < deadline:
            if self._is_answering():
                return
            time.sleep(0.05)
        exit_code = child_process.poll()
        outcome = (
            f"ended with code {exit_code}" if exit_code is not None else f"did not answer within {timeout_seconds:g} s"
        )
        raise self.ERROR(
            f"The embedded {self.PROGRAM} on {self.folder} {outcome}; expected it to answer on {self.running.address}. "
            f"The whole log: {self._log_file}. Its last relevant lines:\n{self._relevant_lines(log_start)}"
        )

    def _relevant_lines(self, log_start: int) -> str:
        """Return the lines of this start's log with errors; if there are none, its last lines."""
        log_lines = []
        if self._output_file.is_file():
            log_lines = without_variables(self._output_file.read_text(errors="replace")).splitlines()
        if self._log_file.is_file():
            with self._log_file.open("rb") as log:
                log.seek(log_start if log_start <= _file_size(self._log_file) else 0)
                log_lines += log.read().decode(errors="replace").splitlines()
        error_lines = [
            log_line
            for log_line in log_lines
            if any(word in log_line for word in (" ERROR ", " FATAL ", " WARN ", "Exception", "Error:"))
        ]
        return (
            "\n".join(f"    {log_line}" for log_line in (error_lines or log_lines)[-LINES_SHOWN:])
            or "    (nothing was logged)"
        )


def _file_size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
