"""The metadata that lakehouse writes into each commit, as a type: the contract of everything that lies on disk.

Delta keeps a text with a commit, its `userMetadata`. Lakehouse's is a JSON object: the version of this format, the kind
of the commit, its number, and what a commit of this kind holds. `docs/commits.md` lists the fields.

    {"lakehouse": 1, "kind": "table", "app": "lakehouse.visits", "epoch": 3, "tick": 7, "nonce": "5f...", ...}

`write_metadata` is the only writer and `parse_metadata` the only reader. Both follow the dataclasses below: a field
that is added here is written, read and checked. Any change of the fields needs the next `FORMAT_VERSION`.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, astuple, dataclass, field, fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lakehouse.errors import StorageError
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.time.clock import ClockState

FORMAT_VERSION = 1
# `write_metadata` begins each text like this, so a text of another writer is recognized without parsing it.
_BEGINNING = '{"lakehouse": '
_EARLIER_BEGINNING = '{"app": "lakehouse.'  # before the format had a version
_PARTITION = re.compile("0|[1-9][0-9]{0,9}")  # each number in one spelling


def app_id(progress_name: str) -> str:
    """Return the app id under which a table's log keeps its progress: Delta's transaction identifier."""
    return f"lakehouse.{progress_name}"


@dataclass(frozen=True, slots=True)
class TopicState:
    """How far bronze is with one topic, by partition.

    id: Kafka's id of the topic. next: the first offset that bronze lacks. last: the tick that last moved the partition.
    order: the order time in milliseconds; in a commit, the order time that the partition carried into the tick.
    """

    id: str
    next: Mapping[int, int] = field(default_factory=dict)
    last: Mapping[int, int] = field(default_factory=dict)
    order: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Event times in milliseconds since 1970: the smallest and largest of a commit's records; None without records.

    through: the largest of all records up to the commit.
    """

    first: int | None = None
    last: int | None = None
    through: int | None = None


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Numbers of records: taken in, not fitting the schema, with a null key, and windows that a record was late for."""

    records: int = 0
    bad: int = 0
    null_keys: int = 0
    late: int = 0


def sum_counts(all_counts: Iterable[RecordCounts]) -> RecordCounts:
    """Return the sums of the counts of several commits."""
    tuples = [astuple(counts) for counts in all_counts]
    return RecordCounts(*map(sum, zip(*tuples, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContent:
    """The effect of a commit. operation: its name, if it did anything else than take in records; else None."""

    operation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedRows(CommitContent):
    """A commit that changes no row: it opens an epoch or, without a number, sets properties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeTick(CommitContent):
    """A tick of bronze; `operation` is "intervention" for a tick that numbers an intervention and has no records.

    run: the id of the writer's run; None for an intervention.
    """

    topics: Mapping[str, TopicState]
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterventionCommit(CommitContent):
    """An entry in the log of interventions; `operation` is the intervention's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCommit(CommitContent):
    """A commit that takes a table from the tick `from_tick` (exclusive) to the commit's tick."""

    from_tick: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCommit(RowsCommit):
    """Records that do not fit a stream's schema; `operation` is "swap" if they replace all earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCommit(RowsCommit):
    """Records that came too late for a table; `operation` is "swap" if they replace all earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleCommit(RowsCommit):
    """Rows of a visible table whose state is a table of its own. keys: the number of keys that the commit touches."""

    run: str
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit(RowsCommit):
    """A batch of a table's state, or the intervention of the kind `operation`.

    run: the id of the writer's run. keys: the number of keys that the commit touches. clock: the table's clock after
    the commit; None for a table without one. failures, null_keys_so_far: the sums over all commits up to this one.
    swap_counts: the counts of the table that a swap brought, from bronze's beginning.
    """

    run: str
    keys: int
    counts: RecordCounts = RecordCounts()
    times: EventTimes = EventTimes()
    clock: ClockState | None = None
    failures: tuple[FunctionFailures, ...] = ()
    null_keys_so_far: int = 0
    swap_counts: RecordCounts | None = None


KINDS: dict[str, type[CommitContent]] = {
    "unchanged rows": UnchangedRows,
    "tick": BronzeTick,
    "intervention": InterventionCommit,
    "quarantine": QuarantineCommit,
    "late": LateCommit,
    "visible": VisibleCommit,
    "table": TableCommit,
}
_KIND_NAMES = {content_type: kind for kind, content_type in KINDS.items()}


@dataclass(frozen=True, slots=True)
class CommitNumber:
    """The number of a commit, in Delta's log under `app`: the epoch of its writer, and the tick that it reaches.

    nonce: a text that no other commit has.
    """

    app: str
    epoch: int
    tick: int
    nonce: str


NO_NUMBER = CommitNumber("", 0, NO_TICK, "")


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Lakehouse's metadata of a commit. number: `NO_NUMBER` for a commit that only sets properties."""

    content: CommitContent
    number: CommitNumber = NO_NUMBER

    @property
    def app(self) -> str:
        """The app id; empty without a number."""
        return self.number.app

    @property
    def tick(self) -> int:
        """The tick that the commit reaches; `NO_TICK` without a number."""
        return self.number.tick


def write_metadata(metadata: CommitMetadata) -> str:
    """Return the text of a commit's metadata; a field that has its default is left out."""
    content, values = metadata.content, asdict(metadata.content)
    written_names = [item.name for item in fields(content) if getattr(content, item.name) != item.default]
    return json.dumps(
        {
            "lakehouse": FORMAT_VERSION,
            "kind": _KIND_NAMES[type(content)],
            **({} if metadata.number == NO_NUMBER else asdict(metadata.number)),
            **{name: values[name] for name in written_names},
        }
    )


def parse_metadata(text: object, place: str) -> CommitMetadata | None:
    """Return the metadata in a commit's text; None for a text of another writer, and without a text.

    place: the commit, for messages ("version 7 of lake/silver/visits"). Raises StorageError for a text that lakehouse
    wrote in another version of this format, and for a damaged text.
    """
    if not isinstance(text, str):
        return None
    if not text.startswith(_BEGINNING):
        if text.startswith(_EARLIER_BEGINNING):
            raise _version_error(place, "no version, from an earlier release")
        return None
    try:
        values = _DECODER.decode(text)
        version = values.pop("lakehouse")
        if version != FORMAT_VERSION or type(version) is not int:
            raise _version_error(place, f"version {reprlib.repr(version)}")
        kind = values.pop("kind", None)
        content_type = KINDS.get(kind) if isinstance(kind, str) else None
        if content_type is None:
            raise _Misfit(f"kind: expected {', '.join(KINDS)}; found {reprlib.repr(kind)}")
        number = NO_NUMBER
        if "app" in values or content_type is not UnchangedRows:
            number = _read_number({name: values.pop(name) for name in _NUMBER_NAMES if name in values})
            if not number.app.startswith(app_id("")):
                raise _Misfit(f"app: expected lakehouse.<table>; found {reprlib.repr(number.app)}")
        return CommitMetadata(_CONTENT_READERS[content_type](values), number)
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, _Misfit) else "it is not JSON that can be read"
        raise StorageError(
            f"{place}: found lakehouse's metadata of a commit, which is damaged: {reason}. Expected version "
            f"{FORMAT_VERSION} of the format in docs/commits.md. Put the commit's file in _delta_log back from a copy. "
            "Without a copy, a table of silver can be made again: remove its folder and run the application, which "
            "builds it from bronze. Never remove bronze's."
        ) from error


def _version_error(place: str, found_version: str) -> StorageError:
    return StorageError(
        f"{place}: found lakehouse's metadata of a commit with {found_version}; this release reads version "
        f"{FORMAT_VERSION}. Read the lake with the release that wrote it, or ingest its topics into a new lake."
    )


class _Misfit(ValueError):
    """A value that the format does not allow; the message begins with the path of its field."""


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _Misfit("a field stands there twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_fields)
ReadValue = Callable[[Any], Any]  # takes a value of the JSON text, gives the field's value; raises _Misfit


def _misfit_error(expected: str, value: Any) -> _Misfit:
    return _Misfit(f"expected {expected}; found {reprlib.repr(value)}")


def _read_number_64(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise _misfit_error("a whole number of 64 bits", value)
    return value


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit_error("a text", value)
    return value


def _read_numbers(value: Any) -> dict[str, int]:
    # In few calls: a commit of bronze has three numbers for each partition.
    numbers: Any = value.values() if isinstance(value, dict) else [None]
    if numbers and not ({int}.issuperset(map(type, numbers)) and -(2**63) <= min(numbers) <= max(numbers) < 2**63):
        raise _misfit_error("an object of whole numbers of 64 bits", value)
    return dict(value)


def _read_numbers_by_partition(value: Any) -> dict[int, int]:
    numbers = _read_numbers(value)
    return dict(zip(map(_read_partition, numbers), numbers.values(), strict=True))


@lru_cache(4096)  # a conversion takes four times as long as a look into the cache
def _read_partition(name: str) -> int:
    if not _PARTITION.fullmatch(name):
        raise _misfit_error("a partition as name", name)
    return int(name)


def _reader_of(annotation: Any) -> ReadValue:
    """Return the function that reads a field of this type."""
    if annotation is int:
        return _read_number_64
    if annotation is str:
        return _read_text
    if is_dataclass(annotation):
        return _object_reader(annotation)
    origin, item_types = get_origin(annotation), get_args(annotation)
    if origin is UnionType:
        return _optional_reader(_reader_of(item_types[0]))
    if origin is tuple:
        return _tuple_reader(_reader_of(item_types[0]))
    if item_types == (int, int):
        return _read_numbers_by_partition
    return _read_numbers if item_types[1] is int else _mapping_reader(_reader_of(item_types[1]))


def _optional_reader(read_value: ReadValue) -> ReadValue:
    return lambda value: None if value is None else read_value(value)


def _tuple_reader(read_value: ReadValue) -> ReadValue:
    def read_items(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _misfit_error("a list", value)
        return tuple(map(read_value, value))

    return read_items


def _mapping_reader(read_value: ReadValue) -> ReadValue:
    def read_items(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit_error("an object", value)
        return {name: read_value(item) for name, item in value.items()}

    return read_items


def _object_reader(object_type: Any) -> ReadValue:
    """Return the function that reads an object of the type: exactly its fields, those with a default at will."""
    annotations = get_type_hints(object_type)
    readers = {item.name: _reader_of(annotations[item.name]) for item in fields(object_type)}
    required_names = {
        item.name for item in fields(object_type) if item.default is MISSING and item.default_factory is MISSING
    }

    def read_object(value: Any) -> Any:
        try:
            return object_type(**{name: readers[name](item) for name, item in value.items()})
        except (AttributeError, KeyError, TypeError, _Misfit):
            raise explain_misfit(value) from None

    def explain_misfit(value: Any) -> _Misfit:
        if not isinstance(value, dict):
            return _misfit_error("an object", value)
        for name, item in value.items():
            if name not in readers:
                return _Misfit(f"{reprlib.repr(name)}: expected no such field")
            try:
                readers[name](item)
            except _Misfit as misfit:
                return _Misfit(f"{name}: {misfit}")
        return _Misfit(f"{min(required_names - value.keys())}: expected a value; found none")

    return read_object


_NUMBER_NAMES = tuple(item.name for item in fields(CommitNumber))
_read_number = _object_reader(CommitNumber)
_CONTENT_READERS = {content_type: _object_reader(content_type) for content_type in KINDS.values()}
