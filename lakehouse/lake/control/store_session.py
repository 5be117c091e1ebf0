"""A process as the holder of leases in an object store: an object that it writes anew while it lives.

    control/sessions/<id>.json   who the process is; written every RENEWAL_SECONDS while it holds a lease

A session that was not written for EXPIRY_SECONDS has ended, and its leases are free. Both times compared are the
store's own, so no machine's clock counts. On the machine of its process a session ends with it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.errors import StorageError
from lakehouse.lake import store

RENEWAL_SECONDS = 10.0
EXPIRY_SECONDS = 40.0

_sessions: dict[tuple[str, int], StoreSession] = {}
_sessions_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Holder:
    """A process. machine: the machine's start and the namespace of its process ids; empty if unknown.

    start_ticks: when it started, in clock ticks since the machine's start; None if unknown.
    """

    host: str
    machine: str
    pid: int
    start_ticks: int | None
    program: str
    since: float

    @classmethod
    def of_this_process(cls) -> Holder:
        from lakehouse.process import start_ticks  # here: executors import this module, and may lack psutil

        pid, program = os.getpid(), Path(sys.argv[0]).name
        return cls(socket.gethostname(), _this_machine(), pid, start_ticks(pid), program, time.time())

    def has_ended(self) -> bool:
        """Say whether its process is known to be gone; False if it ran elsewhere."""
        if not self.machine or self.machine != _this_machine():
            return False
        from lakehouse.process import is_pid_used, start_ticks

        found_ticks = start_ticks(self.pid)
        is_known = found_ticks is not None and self.start_ticks is not None
        return found_ticks != self.start_ticks if is_known else not is_pid_used(self.pid)

    def describe(self) -> str:
        since_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since))
        return f"{self.program}, process {self.pid} on {self.host}, since {since_text}"


class StoreSession:
    """This process as a holder of leases below a folder such as s3a://bucket/lake/control. `session_of` gives it."""

    def __init__(self, folder: str) -> None:
        self.id = uuid.uuid4().hex
        self._folder, self._holder = folder, Holder.of_this_process()
        # The claims of leases that this process wants or holds: one that it could not give back is not among them.
        self.claims: set[str] = set()
        self._lock = threading.Lock()
        self._lease_count = 0
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None

    def join(self) -> None:
        """Count a lease that is wanted; with the first one the session begins. Raises StorageError."""
        with self._lock:
            if self._lease_count == 0:
                self._renew()
                self._ended = threading.Event()
                self._renewing = threading.Thread(
                    target=self._keep_renewing, args=(self._ended,), name="lakehouse-session", daemon=True
                )
                self._renewing.start()
            self._lease_count += 1

    def leave(self) -> None:
        """Count one lease less; with the last one the session ends."""
        with self._lock:
            self._lease_count -= 1
            if self._lease_count == 0 and self._renewing is not None:
                self._ended.set()
                self._renewing.join()
                self.remove(self.id)

    def remove(self, session_id: str) -> None:
        """Remove a session that has ended. If the store does not answer, it expires by itself."""
        with suppress(StorageError):
            store.delete_object(self._path(session_id))

    def find_living(self, session_id: str) -> Holder | None:
        """Return the process of a session; None if it has ended. Raises StorageError."""
        stored = store.get_object(self._path(session_id))
        if stored is None:
            return None
        holder = _parse_holder(stored.content)
        if holder is not None and holder.has_ended():
            return None
        self._renew()
        own = store.get_object(self._path(self.id))
        if own is not None and (own.written_at - stored.written_at).total_seconds() > EXPIRY_SECONDS:
            return None
        return holder or Holder("an unknown machine", "", 0, None, "a process", stored.written_at.timestamp())

    def _renew(self) -> None:
        store.put_object(self._path(self.id), json.dumps(asdict(self._holder)).encode())

    def _keep_renewing(self, ended: threading.Event) -> None:
        while not ended.wait(RENEWAL_SECONDS):
            # A store that is away for longer than the session lives: another process may take the leases, and epochs
            # fence this one.
            with suppress(StorageError):
                self._renew()

    def _path(self, session_id: str) -> str:
        return f"{self._folder}/sessions/{session_id}.json"


def describe_session(folder: str, session_id: str) -> str | None:
    """Return the process of a session below a folder control/, for people; None if it is known to have ended.

    Nothing is written, so the store's own time is not known: a session that was not renewed, by this machine's clock,
    says so. Raises StorageError.
    """
    stored = store.get_object(f"{folder}/sessions/{session_id}.json")
    holder = None if stored is None else _parse_holder(stored.content)
    if stored is None or holder is None or holder.has_ended():
        return None
    is_silent = (datetime.now(UTC) - stored.written_at).total_seconds() > EXPIRY_SECONDS
    return f"{holder.describe()}{f', silent since {stored.written_at:%Y-%m-%dT%H:%M:%SZ}' if is_silent else ''}"


def session_of(folder: str) -> StoreSession:
    """Return this process's session below a folder control/ of an object store."""
    with _sessions_lock:
        return _sessions.setdefault((folder, os.getpid()), StoreSession(folder))


def _this_machine() -> str:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _parse_holder(content: bytes) -> Holder | None:
    try:
        parsed: dict[str, Any] = json.loads(content)
        return Holder(**{field.name: parsed[field.name] for field in fields(Holder)})
    except (ValueError, KeyError, TypeError):
        return None
