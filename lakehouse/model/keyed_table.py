"""Tables in the model: one record after the other through the operators of `lakehouse.semantics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.plan.aggregation import rule
from lakehouse.plan.operator import operator
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.aggregate.aggregate import sort_key
from lakehouse.semantics.aggregate.collection import frozen
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.clock import Clock
from lakehouse.semantics.moment import milliseconds, moment
from lakehouse.semantics.operators.cell import Cell, Cells, Input
from lakehouse.semantics.position import Identity, Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Effect, Row, effect, takes_part_in_aggregates
from lakehouse.semantics.window import Span


@dataclass(frozen=True, slots=True)
class Event:
    """A stream's record on its way through the steps. `values` holds all columns by lower-case name."""

    null_key: bool
    tombstone: bool
    values: dict[str, Any]
    timestamp: int
    record: Record
    position: Position


@dataclass(frozen=True, slots=True)
class Late:
    """A record that came too late for a window (or, with `order_by`, at all: `span` is None)."""

    identity: Identity
    position: Position
    span: Span | None


@dataclass(slots=True)
class Made:
    """What became of a table: its rows, its changelog per event, what came too late, null keys that were ignored.

    unseen: the changes that HAVING or `suppress` keep out of the changelog.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    unseen: list[Change] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    null_keys: int = 0


def run(
    table: Table, events: Iterable[Event], until: int | None = None, judged: Mapping[Position, int] | None = None
) -> Made:
    """Run a table over its stream's events, in position order. until: see `lakehouse.model.model.run`.

    judged: by which time each record is judged, where the events are not all that move the clock. Then nothing closes
    and nothing expires: final results are changes as others are.
    """
    made = Made()
    if table.order_by is not None:
        changes = _ordered(table, events, made, until, judged)
    elif table.is_latest:
        changes = _latest(table, (event for event in events if _counts(event, until)), made)
    else:
        changes = _Aggregate(table, made, until, judged).changes(events)
    for change in changes:
        assert change.key is not None
        before = made.rows.get(change.key)
        value = change.value if _qualifies(table, change) else None
        nothing = value is None and before is None
        # Not `==`: the sum of doubles that is NaN is unchanged.
        if (table.having is not None and nothing) or (table.suppress and frozen(value) == frozen(before)):
            made.unseen.append(change)
            continue
        made.changes.append(Change(change.key, value, change.timestamp, change.position))
        if value is None:
            made.rows.pop(change.key, None)
        else:
            made.rows[change.key] = value
    return made


def _counts(event: Event, until: int | None) -> bool:
    return until is None or event.timestamp <= until


def _qualifies(table: Table, change: Change) -> bool:
    if table.having is None or change.value is None:
        return True
    assert change.key is not None
    row = dict(zip((name.lower() for name in table.key), map(unhashable, change.key), strict=True))
    return evaluate(table.having, row | {name.lower(): v for name, v in change.value.items()}) is True


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
    return tuple(hashable(item) for item in value) if isinstance(value, list) else value


def unhashable(value: Any) -> Any:
    """Return a key's value as it was before `hashable`: a tuple of names and values is a struct, another an array."""
    if not isinstance(value, tuple):
        return value
    if all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in value):
        return {name: unhashable(item) for name, item in value}
    return [unhashable(item) for item in value]


def comparable(value: Any) -> Any:
    """Return a key in a form that sorts as Spark does: nulls first, NaN the largest double."""
    if isinstance(value, tuple):
        return (1, tuple(comparable(item) for item in value))
    return (0,) if value is None else (1, sort_key(value))


def stream_change(stream: Stream, event: Event) -> Change:
    """Return a stream's record as it is published."""
    key = None if event.null_key else key_of(stream.key, event.values)
    value = None if event.tombstone else row_of(stream, event.values)
    return Change(key, value, event.timestamp, event.position)


def _latest(table: Table, events: Iterable[Event], made: Made) -> Iterable[Change]:
    for event in events:
        change = stream_change(table.stream, event)
        if effect(change.key is None, change.value) is Effect.IGNORE:
            made.null_keys += 1
        else:
            yield change


def _ordered(
    table: Table, events: Iterable[Event], made: Made, until: int | None, judged: Mapping[Position, int] | None
) -> Iterable[Change]:
    """The latest by an order of the records' own. A delete leaves its order behind, as a marker."""
    assert table.order_by is not None
    orders: dict[Key, Any] = {}
    clock = Clock()
    for event in events:
        change = stream_change(table.stream, event)
        if change.key is None:
            made.null_keys += 1
            continue
        order = evaluate(table.order_by, event.values)
        if isinstance(order, datetime):
            order = milliseconds(order)
        elif order is None and table.order_is_time:
            order = event.timestamp
        if order is not None and table.retention is not None:
            # Markers leave by the watermark: a partition that lags behind it must not bring deleted rows back.
            now = judged[event.position] if judged is not None else _horizon(clock, event, order, table.lag)
            order = order if order > now - table.retention else None
        if order is None:
            made.late.append(Late(event.record.identity, event.position, None))
        elif _counts(event, until) and (change.key not in orders or orders[change.key] <= order):
            orders[change.key] = order
            yield change


def _partition(event: Event) -> str:
    """The partition that a clock knows a record by."""
    return f"{event.record.topic}/{event.record.topic_id}/{event.record.partition}"


def _horizon(clock: Clock, event: Event, time: int, lag: int | None) -> int:
    """Let a record move a clock; return what it is judged by. lag: the table's."""
    now = clock.observe(_partition(event), time, event.position.order_time)
    assert clock.watermark is not None
    return now if lag is None else max(now, clock.watermark - lag)


def group_of(table: Table, event: Event) -> Key | None:
    """Return the group that a record reaches; None for one that takes no part."""
    group = {item.name.lower(): evaluate(item.expression, event.values) for item in table.group_by}
    if not takes_part_in_aggregates(tuple(group.values()), None if event.tombstone else event.values):
        return None
    return key_of([item.name for item in table.group_by], group)


def horizons(table: Table, events: Iterable[Event]) -> dict[Position, int]:
    """Return by which time each record of an aggregate is judged. events: all that reach it, in position order."""
    clock = Clock(table.idle)
    return {event.position: _horizon(clock, event, event.timestamp, table.lag) for event in events}


class _Aggregate:
    """The rows of an aggregate: by group, then by window."""

    def __init__(
        self, table: Table, made: Made, until: int | None, judged: Mapping[Position, int] | None = None
    ) -> None:
        self._table, self._made, self._until, self._judged = table, made, until, judged
        self._rules = tuple(rule(item, table.stream.columns) for item in table.aggregations)
        self._operator = operator(table, self._rules)
        # Records are judged by the one; windows close, and rows expire, by the other, which only those that count move.
        self._judge, self._clock = Clock(table.idle), Clock(table.idle)
        self._groups: dict[Key, Cells] = {}

    def changes(self, events: Iterable[Event]) -> Iterable[Change]:
        table = self._table
        for event in events:
            group = group_of(table, event)
            if group is None:
                self._made.null_keys += not event.tombstone
                continue
            yield from self._one(group, event)
        yield from self._expired()

    def _one(self, group: Key, event: Event) -> Iterable[Change]:
        table, position = self._table, event.position
        if self._judged is not None:
            horizon = self._judged[position]
        else:
            horizon = _horizon(self._judge, event, event.timestamp, table.lag)
        if not _counts(event, self._until):
            return
        before = self._clock.watermark
        self._clock.observe(_partition(event), event.timestamp, position.order_time)
        values = tuple(evaluate(i.argument, event.values) if i.argument else None for i in table.aggregations)
        cells = self._groups.setdefault(group, Cells())
        steps, late = self._operator.apply(cells, Input(event.timestamp, horizon, position, values))
        self._made.late += [Late(event.record.identity, position, span) for span in late]
        if table.is_final and self._judged is None:
            yield from self._closed(position, before)
            return
        for step in steps:
            yield self._change(group, step.span, step.cell, step.time, position)

    def _closed(self, position: Position, before: int | None) -> Iterable[Change]:
        """The windows that this record has closed, the one that ended first to begin with; they are final."""
        window, watermark = self._table.window, self._clock.watermark
        assert window is not None
        assert watermark is not None
        closed = [
            (span, group)
            for group, cells in self._groups.items()
            for span in cells
            if span is not None and window.closes(span) <= watermark
        ]
        for span, group in sorted(closed, key=lambda item: (item[0].end, item[0].start, comparable(item[1]))):
            cell = self._groups[group][span]
            if before is None or window.closes(span) > before:
                yield self._change(group, span, cell, cell.time, position)
            # A closed sliding window still tells what the next ones begin with.
            if span.end + window.needed < watermark:
                del self._groups[group][span]

    def _change(self, group: Key, span: Span | None, cell: Cell | None, time: int, position: Position) -> Change:
        names = [item.name for item in self._table.aggregations]
        row = None
        if cell is not None:
            shown = [rule.result(kept) for rule, kept in zip(self._rules, cell.accumulators, strict=True)]
            row = dict(zip(names, shown, strict=True))
        bounds = () if span is None else (moment(span.start), moment(span.end))
        return Change((*group, *bounds), row, time, position)

    def _expired(self) -> Iterable[Change]:
        """At the end: rows past their retention are gone, without a change (they expire, as a store's segments do)."""
        retention, watermark = self._table.retention, self._clock.watermark
        if retention is not None and watermark is not None and self._judged is None:
            for key in [key for key in self._made.rows if milliseconds(key[-1]) + retention < watermark]:
                del self._made.rows[key]
        return ()
