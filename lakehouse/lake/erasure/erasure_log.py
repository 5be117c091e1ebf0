"""Erasures: records that somebody asked to be erased, as the lake remembers them, without anything that names them.

A note for each erasure, below erasures/, says what was done, how far it has come, and each search for what is left.
Beside the notes, the table erasures/records has the place of each erased record, and a salted hash of its bytes.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

from lakehouse.errors import ConfigError
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.erasure.subject import ErasureSubject, SubjectTypes
from lakehouse.lake.layout import Layout

# In this order. "chosen": the places are kept. "deleted": bronze lacks the records. "swapped": the tables lack them.
# "published": so do the topics that are published. "purged": no file has them.
Progress = Literal["begun", "chosen", "deleted", "swapped", "published", "purged"]
STEPS: tuple[Progress, ...] = ("begun", "chosen", "deleted", "swapped", "published", "purged")
SUFFIX = ".json"
HIDDEN = ("salt", "subject", "columns", "types", "values")


@dataclass(frozen=True, slots=True)
class Search:
    """One search through every file of the lake. occurrences: how many files hold what was searched."""

    searched_at: str
    files: int
    bytes: int
    occurrences: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure, as its note has it. Times are ISO 8601, in UTC.

    subject: a hash of what was asked, by the salt. types: of the columns that hold it. records: the number of erased
    records by topic. tables: those that were built again. columns: the names of the columns that held the key. tick:
    that at which the tables lack the records. values: hashes of the further texts that were searched for. source:
    whether the topics of its keys got tombstones first.
    """

    id: str
    salt: str
    subject: str
    reason: str
    decided_by: str
    begun_at: str
    progress: Progress = "begun"
    records: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    tick: int | None = None
    finished_at: str | None = None
    searches: tuple[Search, ...] = ()
    types: SubjectTypes = field(default_factory=dict)
    values: tuple[str, ...] = ()
    source: bool = False

    @classmethod
    def begin(cls, subject: ErasureSubject, reason: str, decided_by: str, types: SubjectTypes | None = None) -> Self:
        """Return a new erasure of a subject. types: see `types_of_subject`."""
        salt, types = secrets.token_hex(16), types or {}
        return cls(uuid.uuid4().hex, salt, subject.hash(salt, types), reason, decided_by, now_text(), types=types)

    @property
    def is_finished(self) -> bool:
        return self.finished_at is not None

    def has_reached(self, progress: Progress) -> bool:
        """Say whether it has come this far."""
        return STEPS.index(self.progress) >= STEPS.index(progress)

    @property
    def is_between_steps(self) -> bool:
        """Whether it has begun to change something, and not ended."""
        return self.has_reached("chosen") and not self.has_reached("purged")

    def is_about(self, subject: ErasureSubject) -> bool:
        """Say whether it is the erasure of a subject, however its keys are written."""
        return subject.hash(self.salt, self.types) == self.subject

    def with_values(self, values: Iterable[str]) -> Self:
        """Return it with further texts that have to be searched for."""
        return replace(self, values=tuple(sorted({*self.values, *self._hash_values(values)})))

    def count_unsearched(self, values: Iterable[str]) -> int:
        """Return how many of the texts that have to be searched for are not among these."""
        return len(set(self.values) - self._hash_values(values))

    def _hash_values(self, values: Iterable[str]) -> set[str]:
        return {hashlib.sha256(f"{self.salt}.{value}".encode()).hexdigest() for value in values if value}

    def facts(self) -> dict[str, Any]:
        """Return its fields for people and programs, without what recognizes its subject."""
        return {name: value for name, value in asdict(self).items() if name not in HIDDEN}

    def with_search(self, search: Search) -> Self:
        """Return it with a further search."""
        return replace(self, searches=(*self.searches, search))


def now_text() -> str:
    """Return the time now, as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def write_erasure(layout: Layout, erasure: Erasure) -> None:
    """Write the note of an erasure. Raises ConfigError in a store that keeps none, StorageError, OSError."""
    if not note.are_kept(layout.erasures):
        raise ConfigError(
            f"{layout.root}: found a store in which lakehouse keeps no notes; expected a folder or S3. An erasure that "
            "is interrupted could not go on."
        )
    note.write(f"{layout.erasures}/{erasure.id}{SUFFIX}", asdict(erasure))


def read_erasures(layout: Layout) -> list[Erasure]:
    """Return the erasures of a lake, the oldest first."""
    if not note.are_kept(layout.erasures):
        return []
    contents = [note.read(f"{layout.erasures}/{name}") for name in store.file_names(layout.erasures)
                if name.endswith(SUFFIX)]  # fmt: skip
    return sorted(map(_parse, filter(None, contents)), key=lambda erasure: erasure.begun_at)


def _parse(content: Mapping[str, Any]) -> Erasure:
    lists = {name: tuple(content[name]) for name in ("tables", "columns", "stages")}
    lists["values"] = tuple(content.get("values", ()))
    types = {name: tuple(texts) for name, texts in content.get("types", {}).items()}
    searches = tuple(Search(**item) for item in content["searches"])
    return Erasure(**{**content, **lists, "types": types, "searches": searches})


def find_erasure(erasures: Iterable[Erasure], subject: ErasureSubject) -> Erasure | None:
    """Return the newest erasure of a subject; None if there is none."""
    matching = [item for item in erasures if item.is_about(subject)]
    return matching[-1] if matching else None
