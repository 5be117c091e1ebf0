"""The files by which a user's commands find a kept engine. No other account can read, replace or add one.

    $XDG_RUNTIME_DIR/lakehouse/    or lakehouse-<uid> in the folder for temporary files; 0700
        <scope>.json               the engine: its processes, port and secret, and the hash of what it was started with
        <scope>.lock               locked by the command that uses the engine; the kernel frees it when that one dies
        <scope>.client             there while a command uses the engine: one that dies leaves it behind
        <scope>.log                what Java prints

A scope is a folder of work with one installation of lakehouse, so two folders have two engines. The tasks of an Airflow
are a scope of their own: their environment is another one than a person's in that folder, who would end their engine.
So are notebooks: one that is open has its engine for hours, and commands beside it go on with theirs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.errors import StorageError
from lakehouse.passed_on import SUPERVISED_BY

SCOPE_DIGITS = 16


@dataclass(frozen=True)
class EngineFiles:
    """The paths of one scope's files."""

    folder: Path
    scope: str

    @property
    def state(self) -> Path:
        return self.folder / f"{self.scope}.json"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.scope}.lock"

    @property
    def client(self) -> Path:
        return self.folder / f"{self.scope}.client"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.scope}.log"


def files_here(*, for_notebook: bool = False) -> EngineFiles:
    """Return the files for the current folder. Raises StorageError if there is no private place for them."""
    user = "notebook" if for_notebook else os.environ.get(SUPERVISED_BY, "")
    facts = (Path.cwd(), sys.prefix, os.getuid(), user)
    digest = hashlib.sha256("\0".join(map(str, facts)).encode("utf-8", "surrogateescape"))
    return EngineFiles(private_folder(), digest.hexdigest()[:SCOPE_DIGITS])


def all_files() -> list[EngineFiles]:
    """Return the files of all folders with an engine of this user. Raises StorageError as `files_here` does."""
    folder = private_folder()
    return [EngineFiles(folder, path.stem) for path in sorted(folder.glob("*.json"))]


def private_folder() -> Path:
    """Return the folder, created if it is not there. Raises StorageError if another account could write into it."""
    folder = Path(tempfile.gettempdir(), f"lakehouse-{os.getuid()}")
    if _is_own_folder(runtime_folder := Path(os.environ.get("XDG_RUNTIME_DIR", ""))):
        folder = runtime_folder / "lakehouse"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}; expected a folder for this user's engines.") from None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise StorageError(
            f"{folder} is not a folder of this user alone (mode 0700); an engine's secret can't be kept there."
        )
    return folder


def _is_own_folder(path: Path) -> bool:
    """Say whether a path names a folder of this user: `su` leaves the variable of the user before."""
    try:
        facts = path.stat()
    except (OSError, ValueError):
        return False
    return path.is_absolute() and stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()


def read_private(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None without one, or if it is not a private file of this user."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as stream:
            facts = os.fstat(stream.fileno())
            if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
                return None
            parsed = json.load(stream)
    except (OSError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None


def try_lock(path: Path, is_worth_waiting: Callable[[], bool]) -> int | None:
    """Lock a file for as long as this process lives; return its handle, None if another process holds the lock.

    is_worth_waiting: asked as long as another one has the lock. For an instant, or while it ends an engine, that is the
    engine's keeper.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if not is_worth_waiting():
                os.close(handle)
                return None
        time.sleep(0.02)
