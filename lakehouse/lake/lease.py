"""One writer for each table: a lease that the operating system takes back when its holder dies.

The lease keeps two processes of one machine (or of one POSIX file system) apart: two JVMs can both win one Delta
version on a local disk. What the lease can't see is fenced by the epoch (`lakehouse.semantics.epoch`).
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType

from lakehouse.errors import LeaseHeld


class Lease:
    """An exclusive lock on a file that also says who holds it. A context manager; `acquire` raises LeaseHeld."""

    def __init__(self, path: str, what: str) -> None:
        local = path.removeprefix("file://")
        self._remote = "://" in local
        self._path = Path(local)
        self._what = what
        self._handle: int | None = None

    def acquire(self) -> Lease:
        """Take the lease, or say who has it. A path on an object store has no lease: there only epochs fence."""
        if self._remote:
            return self
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(handle, 4096).decode(errors="replace")
            os.close(handle)
            raise LeaseHeld(
                f"{self._what} is being written by another process: {_who(holder)}. "
                "A table has one writer: wait for it, or stop it."
            ) from error
        os.ftruncate(handle, 0)
        os.write(
            handle, json.dumps({"pid": os.getpid(), "since": time.time(), "program": Path(sys.argv[0]).name}).encode()
        )
        self._handle = handle
        return self

    def release(self) -> None:
        """Give the lease back. The file stays; an empty one means that nobody holds it."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Lease:
        return self if self._handle is not None else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _who(text: str) -> str:
    try:
        holder = json.loads(text)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holder["since"]))
        return f"{holder['program']}, process {holder['pid']}, since {since}"
    except (ValueError, KeyError, TypeError):
        return "its name is not known"
