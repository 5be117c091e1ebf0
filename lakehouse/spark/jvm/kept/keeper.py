"""The process that owns a kept engine: it starts Java, and ends it when nobody needs it any more.

It is run as a script, with the standard library, psutil and Py4J alone: it stays in memory as long as the engine.
Java's standard input is a pipe of the keeper, and Java ends when it closes: so no engine outlives its keeper, however
that one ends. Argument: a JSON object, see `lakehouse.spark.jvm.kept.engine`.

The engine ends, in this order of looking: when Java ends; when the lock is free, and the command that had it did not
say that it cleared what was its own; when its file is gone or is another engine's; when the part of Airflow whose task
started it has ended; when a disk that it writes to is full; when its heap stays above the bound after a collection;
after the idle time.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

START_POLL_SECONDS = 0.02
POLL_SECONDS = 0.5
COLLECT_AFTER_SECONDS = 3.0  # idle: a command that follows at once does not wait for the collector
END_SECONDS = 10.0
HEAP_SHARE_MAX = 0.5


def main(argument: str) -> None:
    """Keep one engine, from its start to its end."""
    start: dict[str, Any] = json.loads(argument)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    started = psutil.Process().create_time()
    owner = _find_owner(start["owner"])
    java_process, answer = _start_java(start)
    try:
        if answer is not None:
            port, secret = answer
            state = {
                "keeper": os.getpid(), "started": started, "start": own_start_mark(), "java": java_process.pid,
                "port": port, "secret": secret, "key": start["key"], "folder": str(Path.cwd()),
                "keep_seconds": start["keep_seconds"],
            }  # fmt: skip
            _write_private(Path(start["state"]), json.dumps(state))
            _wait_for_end(java_process, start, owner, port, secret)
    finally:
        _remove_state_file(Path(start["state"]))
        java_process.stdin.close()  # type: ignore[union-attr]
        try:
            java_process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            java_process.kill()
            java_process.wait()


def _start_java(start: dict[str, Any]) -> tuple[subprocess.Popen[bytes], tuple[int, str] | None]:
    """Start Java; return it with its port and secret. They are None if it ended, or nobody waits for it any more."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-engine-") as folder:
        answer_file = Path(folder, "gateway")
        variables = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer_file)}
        java_process = subprocess.Popen(start["command"], stdin=subprocess.PIPE, env=variables)
        try:
            while java_process.poll() is None and _is_client(start["client_pid"], Path(start["client"])):
                if answer_file.is_file():
                    return java_process, _read_answer(answer_file.read_bytes())
                time.sleep(START_POLL_SECONDS)
        except BaseException:  # SIGTERM: a Java that hangs would not see that its input has ended
            java_process.kill()
            raise
    return java_process, None


def own_start_mark() -> str:
    """Return this process's `lakehouse.process.start_mark`, which can't be imported here."""
    try:
        ticks = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {ticks}"
    except OSError:
        return ""


def _is_client(pid: int, client_file: Path) -> bool:
    """Say whether the command that started this keeper still has the scope: another has it after that one died."""
    with suppress(OSError, ValueError, KeyError):
        return bool(json.loads(client_file.read_text(encoding="utf-8"))["pid"] == pid)
    return False


def _wait_for_end(
    java_process: subprocess.Popen[bytes], start: dict[str, Any], owner: psutil.Process | None, port: int, secret: str
) -> None:
    """Return when the engine has to end, with the lock held: nobody takes it up any more."""
    state_file, client_file = Path(start["state"]), Path(start["client"])
    lock_handle = os.open(start["lock"], os.O_RDWR | os.O_CREAT, 0o600)
    collected_at = 0.0
    while java_process.poll() is None:
        fcntl.flock(lock_handle, fcntl.LOCK_EX)  # waits while a command uses the engine
        if client_file.exists() or not _is_own_state(state_file):
            return
        if start["owner"] is not None and not _is_alive(owner):
            return
        if any(_free_bytes(folder) < start["free_bytes_min"] for folder in start["folders"]):
            return  # no command could use it, and it gives back what it has written
        left_at = os.fstat(lock_handle).st_mtime  # a command that leaves touches the file
        idle_seconds = time.time() - left_at
        if idle_seconds >= start["keep_seconds"]:
            return
        fcntl.flock(lock_handle, fcntl.LOCK_UN)
        if idle_seconds >= COLLECT_AFTER_SECONDS and collected_at < left_at:
            collected_at = time.time()
            if _heap_in_use(port, secret) > HEAP_SHARE_MAX:
                _remove_state_file(state_file)
                continue
        time.sleep(POLL_SECONDS)


def _free_bytes(folder: str) -> float:
    """Return how much can be written to a folder's disk; infinity if that is not known."""
    with suppress(OSError):
        return float(shutil.disk_usage(folder).free)
    return math.inf


def _heap_in_use(port: int, secret: str) -> float:
    """Let Java collect its heap, and give memory back; return the share of the largest heap that is in use."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    parameters = GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        gateway.jvm.java.lang.System.gc()
        runtime = gateway.jvm.java.lang.Runtime.getRuntime()
        return float(runtime.totalMemory() - runtime.freeMemory()) / float(runtime.maxMemory())
    except Exception:
        return 0.0  # Java has ended, which the next look sees
    finally:
        gateway.close()


def _read_answer(answer: bytes) -> tuple[int, str]:
    """Return the port and the secret that Spark's gateway wrote: a number, a length, a text."""
    port, length = struct.unpack("!ii", answer[:8])
    return port, answer[8 : 8 + length].decode("utf-8")


def _write_private(path: Path, text: str) -> None:
    fresh_path = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh_path.replace(path)


def _is_own_state(state_file: Path) -> bool:
    with suppress(OSError, ValueError, KeyError):
        return bool(json.loads(state_file.read_text(encoding="utf-8"))["keeper"] == os.getpid())
    return False


def _find_owner(pid: int | None) -> psutil.Process | None:
    """Return the process whose end ends the engine: it started the command that started this one."""
    with suppress(psutil.Error):
        return None if pid is None else psutil.Process(pid)
    return None


def _is_alive(owner: psutil.Process | None) -> bool:
    """Say whether a process still runs, and not another one of its number."""
    with suppress(psutil.Error):
        return owner is not None and owner.is_running() and owner.status() != psutil.STATUS_ZOMBIE
    return False


def _remove_state_file(state_file: Path) -> None:
    if _is_own_state(state_file):
        with suppress(OSError):
            state_file.unlink()


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
