"""A stream's records in the model, and their keys: in a form that can be a dict's key and sorts as in Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.plan.stream import Stream
from lakehouse.semantics.aggregate.aggregate import sort_key
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.key_value import key_value
from lakehouse.semantics.moment import milliseconds
from lakehouse.semantics.position import Identity, Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Row
from lakehouse.semantics.window import Span


@dataclass(frozen=True, slots=True)
class Event:
    """A stream's record on its way through the steps. `values` holds all columns by lower-case name.

    undo: a table's row that is taken out, see `lakehouse.plan.rows`. clock: the partition whose clock it moves, if not
    its own: see `lakehouse.plan.lineage.clocks`.
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
class Late:
    """A record that came too late for a window; with `order_by`, or for a join of streams, at all: `span` is None."""

    identity: Identity
    position: Position
    span: Span | None


def epoch_ms(value: Any) -> Any:
    """Return the milliseconds of a timestamp; of milliseconds, themselves."""
    return milliseconds(value) if isinstance(value, datetime) else value


def row_of(stream: Stream, values: dict[str, Any]) -> Row:
    """Return a stream's value columns."""
    return {c.name: values.get(c.name.lower()) for c in stream.columns if c.name not in stream.key}


def key_of(names: Iterable[str], values: dict[str, Any]) -> Key:
    """Return the key columns in a form that can be a dict's key."""
    return tuple(hashable(values.get(name.lower())) for name in names)


def hashable(value: Any) -> Any:
    """Return a value in a form that can be a dict's key: a struct becomes a tuple of its fields."""
    if isinstance(value, dict):
        return tuple((name, hashable(item)) for name, item in value.items())
    return tuple(hashable(item) for item in value) if isinstance(value, list) else key_value(value)


def unhashable(value: Any) -> Any:
    """Return a key's value as it was before `hashable`: a tuple of names and values is a struct, any other an array."""
    if not isinstance(value, tuple):
        return value
    if all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in value):
        return {name: unhashable(item) for name, item in value}
    return [unhashable(item) for item in value]


def comparable(value: Any) -> Any:
    """Return a key in a form that sorts as in Spark: nulls first, NaN the largest double."""
    if isinstance(value, tuple):
        return (1, tuple(comparable(item) for item in value))
    return (0,) if value is None else (1, sort_key(value))


def stream_change(stream: Stream, event: Event) -> Change:
    """Return a stream's record in its published form."""
    key = None if event.null_key else key_of(stream.key, event.values)
    value = None if event.tombstone or event.undo else row_of(stream, event.values)
    return Change(key, value, event.timestamp, event.position)
