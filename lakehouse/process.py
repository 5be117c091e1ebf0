"""A child process that ends with its parent, checks that a pid is still the same process, and ports."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

HOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
# Without `start_mark`: the clock may be corrected between two readings of a start; pids are not reused that fast.
CREATED_TOLERANCE_SECONDS = 5.0
# Linux shows no command line while a process begins its program: 20 ms on a busy machine.
EXEC_SECONDS = 2.0


def spawn_child(
    command: list[str],
    output: Path,
    outlive: bool,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` with its output in the file ``output``, which only this user can read. Raises OSError.

    ``outlive``: the child keeps running when this process ends. Otherwise Linux ends the child (SIGTERM) as soon as
    this process is gone, killed or not; on other systems the caller has to end it. ``folder``: the child's current
    folder; default: this process's. ``variables``: further ones of its environment.
    """
    started = threading.Event()
    started_children: list[subprocess.Popen[bytes]] = []
    start_failures: list[OSError] = []

    def run() -> None:
        try:
            with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output_stream:
                os.fchmod(output_stream.fileno(), 0o600)  # of an earlier version; Java repeats options with passwords
                child_process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output_stream,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env={**os.environ, **(variables or {})},
                    # Ctrl-C in the terminal must reach only the parent, which stops its clients first.
                    start_new_session=True,
                    # The hook only calls prctl, which is safe after a fork.
                    preexec_fn=None if outlive else parent_death_hook(),
                )
            started_children.append(child_process)
        except OSError as error:
            start_failures.append(error)
            return
        finally:
            started.set()
        child_process.wait()

    # Linux sends the signal when the *thread* that started the child ends, so that thread must outlive the child.
    threading.Thread(target=run, name="lakehouse-child", daemon=True).start()
    started.wait()
    if start_failures:
        raise start_failures[0]
    return started_children[0]


def parent_death_hook() -> Callable[[], None] | None:
    """Return a hook for the child to run before its program: Linux then ends it (SIGTERM) with the calling thread."""
    if not sys.platform.startswith("linux"):
        return None
    c_library = ctypes.CDLL(None, use_errno=True)
    parent_pid = os.getpid()

    def request_signal() -> None:
        c_library.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent_pid:  # the parent was gone before the request
            os._exit(1)

    return request_signal


def identify_process(pid: int, created: float, mark: str, start: str = "") -> psutil.Process | None:
    """Return the running process ``pid`` with the argument ``mark`` if it is the one that started then, else None.

    start: its `start_mark`. Where it has none, ``created`` counts: when it started, in seconds since 1970.
    """
    try:
        process = psutil.Process(pid)
        is_same = (
            start_mark(pid) == start if start else abs(process.create_time() - created) <= CREATED_TOLERANCE_SECONDS
        )
        is_same = is_same and mark in _command_line(process)
        return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.Error, ValueError):
        return None


def _command_line(process: psutil.Process) -> list[str]:
    """Return the arguments of a process, also of one that was started this moment: none are shown for an instant."""
    deadline = time.monotonic() + EXEC_SECONDS
    while not (arguments := [str(item) for item in process.cmdline()]) and time.monotonic() < deadline:
        time.sleep(0.001)
    return arguments


def start_mark(pid: int) -> str:
    """Return what no other process of this number has: which start of the machine, and the process's own in ticks.

    It stays the same when the clock is set. Empty if there is no such process, and on systems other than Linux.
    """
    ticks = start_ticks(pid)
    try:
        return "" if ticks is None else f"{BOOT_ID_FILE.read_text().strip()} {ticks}"
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine's start; None if Linux's /proc does not show it.

    No clock that is set changes it, unlike the time of day of a start, which is counted back from now.
    """
    try:
        process_facts = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(process_facts.rpartition(b")")[2].split()[19])  # before it stands the program's name, of any characters


def is_pid_used(pid: int) -> bool:
    """Say whether there is a process of this number, also one that /proc hides from this account."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def find_free_port(other_than: int = 0) -> int:
    """Return a port of 127.0.0.1 that is unused at this moment. other_than: a port that will be used beside it."""
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            if (port := int(probe.getsockname()[1])) != other_than:
                return port


def is_port_free(port: int) -> bool:
    """Say whether a server could listen on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def is_accepting(address: str) -> bool:
    """Say whether something listens at ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False


def describe_port_user(port: int) -> str:
    """Return the process that listens on a port, as `` by pid 12 (java)``; "" if the system does not reveal it."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if listens and connection.pid:
                return f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""
