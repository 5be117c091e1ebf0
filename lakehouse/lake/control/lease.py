"""One writer for each table: a lease that its holder loses when it dies.

On a disk it is a lock of the operating system: it keeps apart the processes of one machine (or of one POSIX file
system), where two JVMs can both win the same Delta version. On S3 it is
an object (`lakehouse.lake.control.store_lease`). The epoch (`lakehouse.semantics.commit_number`) fences writers that
the lease can't see.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType

from lakehouse.errors import LeaseHeld, StorageError, reason_of_error
from lakehouse.lake import store
from lakehouse.lake.control.store_lease import StoreLease

RETRY_SECONDS = 0.2


class Lease:
    """An exclusive lock that also names its holder. A context manager; `acquire` raises LeaseHeld."""

    def __init__(self, path: str, label: str) -> None:
        local_path = path.removeprefix("file://")
        self._remote = store.is_remote(local_path)
        self._store_lease = StoreLease(path, label) if store.has_leases(path) else None
        self._path = Path(local_path)
        self._what = label
        self._handle: int | None = None

    def acquire(self) -> Lease:
        """Take the lease. Raises LeaseHeld, with the holder, and StorageError.

        On a store without conditional PUTs do nothing: only epochs fence there.
        """
        if self._store_lease is not None:
            self._store_lease.acquire()
        if self._remote:
            return self
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # As the umask has it, like the lake's other files: with 002 the accounts of a group share the lake.
        file_handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._lock(file_handle)
            os.ftruncate(file_handle, 0)
            os.write(
                file_handle,
                json.dumps({"pid": os.getpid(), "since": time.time(), "program": Path(sys.argv[0]).name}).encode(),
            )
        except BaseException:  # an open handle would keep the lock
            os.close(file_handle)
            raise
        self._handle = file_handle
        return self

    def _lock(self, file_handle: int) -> None:
        try:
            fcntl.flock(file_handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder_text = os.read(file_handle, 4096).decode(errors="replace")
            raise LeaseHeld(
                f"{self._what} is being written by another process: {_describe_holder(holder_text)}. "
                "A table has one writer: wait for it, or stop it."
            ) from error
        except OSError as error:
            raise StorageError(
                f"{self._path} can't be locked: {reason_of_error(error)}. Expected a file system with locks (flock), "
                "which keep a table's writers apart: mount it with locks, or put the lake on another."
            ) from error

    def acquire_within(self, seconds: float) -> Lease:
        """Take the lease, after waiting for its holder at most so long. Raises as `acquire` does."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.acquire()
            except LeaseHeld:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def check(self) -> None:
        """Raise LeaseHeld if a process holds the lease, this one too. On S3 this takes two requests."""
        if self._store_lease is not None:
            self._store_lease.check()
        else:
            with self:
                pass

    def holder(self) -> str | None:
        """Return which process holds the lease, and since when; None if nobody does.

        Nothing is written. On a local disk; on a store: `lakehouse.lake.control.store_lease.find_holders`.
        """
        if self._remote or not self._path.is_file():
            return None
        file_handle = os.open(self._path, os.O_RDONLY)
        try:
            holder_text = os.read(file_handle, 4096).decode(errors="replace")
            if not holder_text:
                return None
            fcntl.flock(file_handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _describe_holder(holder_text)
        finally:
            os.close(file_handle)
        return None  # its process was killed

    def release(self) -> None:
        """Give the lease back. The file stays; an empty one means that nobody holds it."""
        if self._store_lease is not None:
            self._store_lease.release()
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def remove(self) -> None:
        """Give the lease back, with its file: for a name that nobody uses again. Raises StorageError, OSError."""
        self.release()
        if self._store_lease is not None:
            self._store_lease.remove()
        elif not self._remote:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Lease:
        is_held = self._handle is not None or (self._store_lease is not None and self._store_lease.is_held)
        return self if is_held else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _describe_holder(lease_text: str) -> str:
    try:
        holder_facts = json.loads(lease_text)
        since_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holder_facts["since"]))
        return f"{holder_facts['program']}, process {holder_facts['pid']}, since {since_text}"
    except (ValueError, KeyError, TypeError):
        return "its name is not known"
