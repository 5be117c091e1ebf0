"""A stream's records in the model, and their keys in forms that a dict takes and that sort as in Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.plan.stream import Stream
from lakehouse.semantics.aggregate.aggregate import sort_key
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.key_value import key_value
from lakehouse.semantics.position import Identity, Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.window import Span
from lakehouse.semantics.tombstone import Row


@dataclass(frozen=True, slots=True)
class Event:
    """A stream's record on its way through the steps. `values` holds all columns by lower-case name.

    undo: the record takes out a table's row, see `lakehouse.plan.rows`. clock: the partition whose clock it moves, if
    not its own: see `lakehouse.plan.lineage.clocks`.
    """

    null_key: bool
    tombstone: bool
    values: dict[str, Any]
    timestamp: int
    record: Record
    position: Position
    undo: bool = False
    clock: str = ""


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A record that came too late for a window. `span` is None with `order_by` and in stream joins."""

    identity: Identity
    position: Position
    span: Span | None


def to_epoch_ms(value: Any) -> Any:
    """Return a timestamp as milliseconds; milliseconds as they are."""
    return to_milliseconds(value) if isinstance(value, datetime) else value


def row_of(stream: Stream, values: dict[str, Any]) -> Row:
    """Return a stream's value columns."""
    return {column.name: values.get(column.name.lower()) for column in stream.columns if column.name not in stream.key}


def key_of(names: Iterable[str], values: dict[str, Any]) -> Key:
    """Return the key columns in a form that can be a dict's key."""
    return tuple(to_hashable(values.get(name.lower())) for name in names)


class _HashableStruct(tuple[tuple[str, Any], ...]):
    """A struct in a key: its fields' names and values. A plain tuple is a list: [["a", "b"]] is no struct."""

    __slots__ = ()


def to_hashable(value: Any) -> Any:
    """Return a value in a form that can be a dict's key; a list becomes a tuple."""
    if isinstance(value, dict):
        return _HashableStruct((name, to_hashable(item)) for name, item in value.items())
    return tuple(to_hashable(item) for item in value) if isinstance(value, list) else key_value(value)


def from_hashable(value: Any) -> Any:
    """Return a key's value as before `to_hashable`."""
    if isinstance(value, _HashableStruct):
        return {name: from_hashable(item) for name, item in value}
    return [from_hashable(item) for item in value] if isinstance(value, tuple) else value


def to_sortable(value: Any) -> Any:
    """Return a key in a form that sorts as in Spark: nulls first, NaN as the largest double."""
    if isinstance(value, tuple):
        return (1, tuple(to_sortable(item) for item in value))
    return (0,) if value is None else (1, sort_key(value))


def stream_change(stream: Stream, event: Event) -> Change:
    """Return a stream's record in its published form."""
    key = None if event.null_key else key_of(stream.key, event.values)
    value = None if event.tombstone or event.undo else row_of(stream, event.values)
    return Change(key, value, event.timestamp, event.position)
