"""Small files that must be complete after a crash, even of the machine: written beside, synced, then renamed.

Without the syncs a file system may show the new name with an empty file after a power failure.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_durably(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file, completely or not at all; its folder is created. private: only its owner can read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh_path = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh_path.unlink(missing_ok=True)
    file_handle = os.open(fresh_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    with os.fdopen(file_handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    fresh_path.replace(path)
    _sync_folder(path.parent)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None without a file, or if the file was cut off."""
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None


@contextmanager
def lock_start(folder: Path) -> Iterator[None]:
    """Allow one start at a time on a folder; the lock ends with the process that holds it."""
    with (folder / "start.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def _sync_folder(folder: Path) -> None:
    folder_handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(folder_handle)
    finally:
        os.close(folder_handle)
