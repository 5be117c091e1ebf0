"""Kept engines: found, taken for one command at a time, started, ended.

A command that uses an engine holds its lock and writes the client's file. It removes the file after it has cleared all
that was its own. A file without a living client shows that the client died: then the engine is ended, so that nobody
takes up what a dead command left.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from lakehouse.passed_on import SUPERVISED_BY
from lakehouse.process import identify_process
from lakehouse.spark.jvm.kept import keeper
from lakehouse.spark.jvm.kept.private_files import EngineFiles, all_files, read_private, try_lock

START_TIMEOUT_SECONDS = 120.0
END_TIMEOUT_SECONDS = 15.0
ANSWER_TIMEOUT_SECONDS = 5.0
INSTANT_SECONDS = 0.3
FREE_BYTES_MIN = 64 * 1024 * 1024  # less on a disk is full: the smallest shuffle needs more


@dataclass(frozen=True)
class KeptEngine:
    """An engine whose keeper is alive. key: the hash of what it was started with. started: in seconds since 1970.

    start: the keeper's `lakehouse.process.start_mark`.
    """

    files: EngineFiles
    keeper_pid: int
    java_pid: int
    started: float
    start: str
    port: int
    secret: str = field(repr=False)
    key: str
    folder: str
    keep_seconds: float

    def keeper_process(self) -> psutil.Process | None:
        """Return the keeper's process; None if it is gone, or its pid belongs to another one."""
        return identify_process(self.keeper_pid, self.started, keeper.__file__, self.start)

    def is_answering(self) -> bool:
        """Say whether its Java takes the secret: not if it hangs, or if another program has its port."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), ANSWER_TIMEOUT_SECONDS) as probe:
                probe.settimeout(ANSWER_TIMEOUT_SECONDS)
                probe.sendall(f"A\n{self.secret}\ne\n".encode())  # Py4J's first command
                return probe.recv(16).startswith(b"!y")
        except OSError:
            return False

    def end(self) -> None:
        """End it, and wait until its Java is gone."""
        keeper_process = self.keeper_process()
        if keeper_process is None:
            return
        with suppress(psutil.Error):
            keeper_process.terminate()
            try:
                keeper_process.wait(END_TIMEOUT_SECONDS)
            except psutil.TimeoutExpired:
                psutil.Process(self.java_pid).kill()
                keeper_process.kill()
                keeper_process.wait(END_TIMEOUT_SECONDS)


def find_engine(files: EngineFiles) -> KeptEngine | None:
    """Return the engine of a scope; None if there is none, even if an old file is there."""
    state = read_private(files.state) or {}
    try:
        engine = KeptEngine(
            files, int(state["keeper"]), int(state["java"]), float(state["started"]), str(state["start"]),
            int(state["port"]), str(state["secret"]), str(state["key"]), str(state["folder"]),
            float(state["keep_seconds"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None
    return engine if engine.keeper_process() is not None else None


def kept_engines() -> list[KeptEngine]:
    """Return this user's engines, of all folders. Raises StorageError without a private place for them."""
    return [engine for files in all_files() if (engine := find_engine(files)) is not None]


def state_of_engine(engine: KeptEngine) -> dict[str, Any]:
    """Return what `lakehouse spark status` tells of an engine, without its secret."""
    client = client_pid(engine.files)
    idle_since, memory = engine.started, 0
    with suppress(OSError):
        idle_since = max(idle_since, engine.files.lock.stat().st_mtime)
    with suppress(psutil.Error):
        memory = psutil.Process(engine.java_pid).memory_info().rss
    return {
        "folder": engine.folder, "pid": engine.java_pid, "keeper": engine.keeper_pid, "client": client,
        "ends_in": None if client else max(0.0, idle_since + engine.keep_seconds - time.time()),
        "memory": memory, "started": engine.started, "log": str(engine.files.log),
    }  # fmt: skip


def stop_engine(engine: KeptEngine) -> bool:
    """End an engine if no process uses it, and return True; otherwise it ends with that process."""
    engine.files.state.unlink(missing_ok=True)  # the keeper ends an engine without its file
    if (claim := claim_engine(engine.files)) is None:
        return False
    engine.end()
    claim.give_up()
    return True


@dataclass
class EngineClaim:
    """The right to use a scope's engine. It lasts for as long as this process, or until `release`."""

    files: EngineFiles
    lock: int

    def release(self) -> None:
        """Let others use the engine. Called once nothing of this process is left in it."""
        os.utime(self.lock)  # from now on it is idle
        self.files.client.unlink()
        os.close(self.lock)

    def give_up(self) -> None:
        """Let others start an engine: this process has none."""
        with suppress(OSError):
            self.files.client.unlink()
        os.close(self.lock)


def claim_engine(files: EngineFiles) -> EngineClaim | None:
    """Take the right to use a scope's engine, whether there is one or not; None if another command has it."""
    start_seconds = time.monotonic()

    def is_worth_waiting() -> bool:
        seconds = time.monotonic() - start_seconds
        return seconds < (INSTANT_SECONDS if client_pid(files) is not None else END_TIMEOUT_SECONDS)

    lock = try_lock(files.lock, is_worth_waiting)
    return None if lock is None else EngineClaim(files, lock)


def client_pid(files: EngineFiles) -> int | None:
    """Return the pid of the command that uses a scope's engine; None if none does."""
    pid = (read_private(files.client) or {}).get("pid")
    return pid if isinstance(pid, int) and psutil.pid_exists(pid) else None


def usable_engine(claim: EngineClaim, key: str) -> KeptEngine | None:
    """Return the scope's engine if it is idle and was started with the same `key`; end any other."""
    engine = find_engine(claim.files)
    if engine is not None and (claim.files.client.exists() or engine.key != key or not engine.is_answering()):
        engine.end()
        engine = None
    _write_client(claim.files)
    return engine


def start_engine(
    claim: EngineClaim,
    key: str,
    arguments: Sequence[str],
    spark_submit: Path,
    keep_seconds: float,
    scratch: Sequence[str],
    variables: Mapping[str, str],
    scratch_lock: int,
) -> KeptEngine | None:
    """Start an engine and return it; None if Java did not start.

    arguments: of spark-submit. scratch: the folders that Spark writes to: the engine ends when one of them is full.
    variables: further ones of its environment. scratch_lock: a lock that the keeper holds as long as it lives.
    """
    files = claim.files
    start: dict[str, Any] = {
        "command": [str(spark_submit), *arguments],
        "state": str(files.state), "lock": str(files.lock), "client": str(files.client), "client_pid": os.getpid(),
        "key": key, "keep_seconds": keep_seconds, "owner": owner_of_process(psutil.Process()),
        "folders": [str(files.folder), *scratch], "free_bytes_min": FREE_BYTES_MIN,
    }  # fmt: skip
    files.state.unlink(missing_ok=True)
    files.log.unlink(missing_ok=True)
    with os.fdopen(os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as log:
        # -P: the folder of the script has modules with names of Python's own.
        keeper_process = subprocess.Popen(
            [sys.executable, "-P", keeper.__file__, json.dumps(start)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, **variables}, pass_fds=(scratch_lock,),
        )  # fmt: skip
    engine = None
    try:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while engine is None and keeper_process.poll() is None and time.monotonic() < deadline:
            time.sleep(keeper.START_POLL_SECONDS)
            # The keeper of a command that was killed while Java started may write a file, too, of another start.
            if (found_engine := find_engine(files)) is not None and found_engine.keeper_pid == keeper_process.pid:
                engine = found_engine
    finally:
        if engine is None:
            keeper_process.terminate()
            keeper_process.wait()
    return engine


def owner_of_process(process: psutil.Process) -> int | None:
    """Return the pid of the part of Airflow that a process belongs to; None outside of Airflow.

    That is the highest of its parents with the mark that it has itself.
    """
    owner = None
    if mark := process.environ().get(SUPERVISED_BY):
        for parent in process.parents():
            with suppress(psutil.Error):
                if parent.environ().get(SUPERVISED_BY) == mark:
                    owner = parent.pid
    return owner


def submit_arguments(properties_file: Path, own_arguments: str) -> list[str]:
    """Return spark-submit's arguments: settings from a file, then the user's own of PYSPARK_SUBMIT_ARGS."""
    return ["--properties-file", str(properties_file), "--load-spark-defaults", *shlex.split(own_arguments)]


def _write_client(files: EngineFiles) -> None:
    files.client.unlink(missing_ok=True)
    with os.fdopen(os.open(files.client, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump({"pid": os.getpid()}, stream)
