"""A lease in an object store: numbered objects, each written if there is none of its number. The greatest one counts.

    control/leases/<name>.lock/<number>.json   {"session": ..., "claim": ...}; {} if the one before was given back

Who wants the lease reads the greatest number, and writes the next one if nobody holds it: of two, the store lets one
write, as it does for the versions of Delta's log. Only smaller numbers are ever removed, so the greatest never falls: a
number that is still the greatest after it was written has been no other's before. The holder's session says whether it
lives (`lakehouse.lake.control.store_session`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from lakehouse.errors import LeaseHeld, StorageError
from lakehouse.lake import store
from lakehouse.lake.control.store_session import EXPIRY_SECONDS, StoreSession, describe_session, session_of

FREE = b"{}"
READS_AT_ONCE = 8


class StoreLease:
    """A lease on an object store. `take` raises LeaseHeld with the holder, and StorageError."""

    def __init__(self, folder: str, label: str) -> None:
        self._folder, self._label = folder, label
        self._session: StoreSession | None = None
        self._number = -1
        self._claim_id = ""

    @property
    def is_held(self) -> bool:
        return self._session is not None

    def acquire(self) -> None:
        session = self._own_session()
        session.join()
        self._claim_id = uuid.uuid4().hex
        session.claims.add(self._claim_id)
        try:
            self._number = self._claim(session)
        except BaseException:
            session.claims.discard(self._claim_id)
            session.leave()
            raise
        self._session = session

    def check(self) -> None:
        """Raise LeaseHeld if a process holds it, this one too; take nothing. Raises StorageError."""
        numbers = self._numbers()
        session = self._own_session()
        holder_id = self._holder_of(max(numbers), session) if numbers else None
        if holder_id is not None:
            session.join()
            try:
                self._refuse_living(session, holder_id)
            finally:
                session.leave()

    def release(self) -> None:
        """Free it, unless another process has taken it over. If the store does not answer, it expires."""
        if self._session is not None:
            with suppress(StorageError):
                if store.put_object(self._path(self._number + 1), FREE, new=True):
                    store.delete_object(self._path(self._number))
            self._session.claims.discard(self._claim_id)
            self._session.leave()
            self._session = None

    def remove(self) -> None:
        """Remove all that the store has of it. Raises StorageError."""
        for number in self._numbers():
            store.delete_object(self._path(number))

    def _claim(self, session: StoreSession) -> int:
        """Write the next number as this session's, and return it. Raises LeaseHeld."""
        content = json.dumps({"session": session.id, "claim": self._claim_id}).encode()
        while True:
            numbers = self._numbers()
            number = max(numbers, default=-1) + 1
            ended_session = self._holder_of(number - 1, session) if numbers else None
            if ended_session is not None:
                self._refuse_living(session, ended_session)
            # A PUT whose answer was lost is sent again, and then refused for its own sake.
            if not store.put_object(self._path(number), content, new=True):
                stored_object = store.get_object(self._path(number))
                if stored_object is None or stored_object.content != content:
                    continue
            if max(self._numbers()) > number:
                store.delete_object(self._path(number))  # an old number, which others had and have removed
                continue
            self._clean(numbers, session, ended_session)
            return number

    def _clean(self, older_numbers: Iterable[int], session: StoreSession, ended_session: str | None) -> None:
        with suppress(StorageError):
            for number in older_numbers:
                store.delete_object(self._path(number))
        if ended_session is not None:
            session.remove(ended_session)

    def _own_session(self) -> StoreSession:
        return session_of(self._folder.rpartition("/leases/")[0])

    def _holder_of(self, number: int, session: StoreSession) -> str | None:
        """Return the session that wrote a number; None if the lease was given back.

        Also if this process wanted to give it back, and the store did not answer: the number is still there.
        """
        stored_object = store.get_object(self._path(number))
        holder = None if stored_object is None else _parse_claim(stored_object.content)
        if holder is None or (holder[0] == session.id and holder[1] not in session.claims):
            return None
        return holder[0]

    def _refuse_living(self, session: StoreSession, holder_id: str) -> None:
        """Raise LeaseHeld if a session lives."""
        holder = session.find_living(holder_id)
        if holder is not None:
            raise LeaseHeld(
                f"{self._label} is being written by another process: {holder.describe()}. A table has one writer: wait "
                "for it, or stop it. The lease of a process that was killed on another machine ends after "
                f"{EXPIRY_SECONDS:g} s."
            )

    def _numbers(self) -> list[int]:
        return list(_numbers_in(store.object_names(self._folder)))

    def _path(self, number: int) -> str:
        return _path_of(self._folder, number)


def find_holders(folder: str) -> dict[str, str]:
    """Return the process that holds each lease, by the lease's name. folder: such as s3a://bucket/lake/control/leases.

    Nothing is written: see `describe_session`. Raises StorageError.
    """
    numbers_by_name: dict[str, int] = {}
    for path in store.object_names_below(folder):
        name, _, object_name = path.partition(".lock/")
        for number in _numbers_in([object_name]):
            numbers_by_name[name] = max(number, numbers_by_name.get(name, number))
    newest_paths = [_path_of(f"{folder}/{name}.lock", number) for name, number in numbers_by_name.items()]
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        newest_objects = list(pool.map(store.get_object, newest_paths))
    sessions_by_name = {
        name: claim[0]
        for name, stored in zip(numbers_by_name, newest_objects, strict=True)
        if stored is not None and (claim := _parse_claim(stored.content)) is not None
    }
    control_folder = folder.rpartition("/leases")[0]
    holders = {session_id: describe_session(control_folder, session_id) for session_id in {*sessions_by_name.values()}}
    return {name: holder for name, id in sessions_by_name.items() if (holder := holders[id]) is not None}


def _path_of(folder: str, number: int) -> str:
    return f"{folder}/{number:020}.json"


def _numbers_in(object_names: Iterable[str]) -> Iterator[int]:
    """Yield the numbers of a lease's objects; others may lie beside them."""
    for object_name in object_names:
        name = object_name.removesuffix(".json")
        if name.isascii() and name.isdigit():
            yield int(name)


def _parse_claim(content: bytes) -> tuple[str, str] | None:
    """Return the session of a lease's object, and its claim; None for one that was given back, or can't be read."""
    with suppress(ValueError):
        parsed: Any = json.loads(content)
        if isinstance(parsed, dict) and isinstance(parsed.get("session"), str):
            return str(parsed["session"]), str(parsed.get("claim"))
    return None
