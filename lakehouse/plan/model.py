"""The model: a plan run over lists, record by record, in plain Python. It is the oracle, and the quick feedback.

What counts as passing is Spark; the model says what Spark must give, because it is simple enough to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.plan.declare import App, Filter, NamedAggregation, Rekey, Select, Source, Stream, Table
from lakehouse.plan.evaluate import evaluate
from lakehouse.plan.expression import expression_type
from lakehouse.semantics.aggregate import Aggregate, Count, CountAll, SumDecimals, SumDoubles, SumIntegers
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Effect, Row, effect, takes_part_in_aggregates

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record seen through its source's schema. `key` is None for a null key, `value` for a null value."""

    key: Row | None
    value: Row | None


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that does not fit the schema, and why."""

    reason: str


Decode = Callable[[Source, Record], Decoded | Bad]


@dataclass(frozen=True, slots=True)
class Event:
    """A stream's record on its way through the steps. `values` holds all columns by lower-case name."""

    null_key: bool
    tombstone: bool
    values: dict[str, Any]
    timestamp: int
    record: Record


@dataclass(slots=True)
class Result:
    """What a run gave: tables and their changelogs, sinks by topic, the quarantine by stream, null keys by table."""

    tables: dict[str, dict[Key, Row]] = field(default_factory=dict)
    changelogs: dict[str, list[Change]] = field(default_factory=dict)
    topics: dict[str, list[Change]] = field(default_factory=dict)
    quarantine: dict[str, list[tuple[Record, str]]] = field(default_factory=dict)
    null_keys: dict[str, int] = field(default_factory=dict)


def run(app: App, records: Iterable[Record], decode: Decode) -> Result:
    """Run an application over records, in position order, and return what comes out."""
    ordered = sorted(records, key=lambda record: record.position)
    result = Result()
    for source in app.sources:
        result.quarantine[source.name] = []
    decoded = {source.name: _decode(source, ordered, decode, result.quarantine[source.name]) for source in app.sources}
    for table in app.tables:
        events = _steps(table.stream, decoded[table.stream.source.name])
        fold = _latest if table.is_latest else _aggregate
        fold(table, events, result)
    for sink in app.sinks:
        if isinstance(sink.of, Table):
            result.topics[sink.topic] = result.changelogs[sink.of.name]
        else:
            events = _steps(sink.of, decoded[sink.of.source.name])
            result.topics[sink.topic] = [_stream_change(sink.of, event) for event in events]
    return result


def _decode(source: Source, records: list[Record], decode: Decode, quarantine: list[tuple[Record, str]]) -> list[Event]:
    events = []
    for record in records:
        if record.topic != source.topic:
            continue
        item = decode(source, record)
        if isinstance(item, Decoded):
            values = {name.lower(): value for name, value in {**(item.value or {}), **(item.key or {})}.items()}
            values |= {"rowtime": record.timestamp, "rowpartition": record.partition, "rowoffset": record.offset}
            timestamp: int | None = record.timestamp
            if source.event_time is not None and item.value is not None:
                timestamp = _milliseconds(evaluate(source.event_time, values))
            if timestamp is None:
                item = Bad(f"the event time {source.event_time} is null")
            else:
                values["rowtime"] = timestamp
                events.append(Event(item.key is None, item.value is None, values, timestamp, record))
        if isinstance(item, Bad):
            quarantine.append((record, item.reason))
    return events


def _milliseconds(moment: Any) -> Any:
    """A timestamp or epoch milliseconds, as milliseconds; microseconds below are cut off, as Kafka has none."""
    return (moment - EPOCH) // timedelta(milliseconds=1) if isinstance(moment, datetime) else moment


def _steps(stream: Stream, events: list[Event]) -> list[Event]:
    for step in stream.steps:
        match step:
            case Filter(predicate):
                events = [e for e in events if not e.tombstone and evaluate(predicate, e.values) is True]
            case Select(columns):
                events = [
                    _with(e, {item.name.lower(): evaluate(item.expression, e.values) for item in columns})
                    for e in events
                ]
            case Rekey(columns):
                events = [
                    _rekeyed(e, {item.name.lower(): evaluate(item.expression, e.values) for item in columns})
                    for e in events
                ]
    return events


def _with(event: Event, made: dict[str, Any]) -> Event:
    return Event(event.null_key, event.tombstone, {**event.values, **made}, event.timestamp, event.record)


def _rekeyed(event: Event, made: dict[str, Any]) -> Event:
    null_key = all(value is None for value in made.values())
    return Event(null_key, event.tombstone, {**event.values, **made}, event.timestamp, event.record)


def _row(stream: Stream, values: dict[str, Any]) -> Row:
    return {c.name: values.get(c.name.lower()) for c in stream.columns if c.name not in stream.key}


def _key(names: Iterable[str], values: dict[str, Any]) -> Key:
    return tuple(hashable(values.get(name.lower())) for name in names)


def hashable(value: Any) -> Any:
    """Return a value in a form that can be a dict's key: a struct becomes a tuple of its fields."""
    if isinstance(value, dict):
        return tuple((name, hashable(item)) for name, item in value.items())
    return tuple(hashable(item) for item in value) if isinstance(value, list) else value


def _stream_change(stream: Stream, event: Event) -> Change:
    key = None if event.null_key else _key(stream.key, event.values)
    value = None if event.tombstone else _row(stream, event.values)
    return Change(key, value, event.timestamp, event.record.position)


def _latest(table: Table, events: list[Event], result: Result) -> None:
    rows: dict[Key, Row] = {}
    changes: list[Change] = []
    ignored = 0
    for event in events:
        change = _stream_change(table.stream, event)
        outcome = effect(change.key is None, change.value)
        if outcome is Effect.IGNORE or change.key is None:
            ignored += 1
            continue
        changes.append(change)
        if outcome is Effect.DELETE or change.value is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = change.value
    result.tables[table.name], result.changelogs[table.name], result.null_keys[table.name] = rows, changes, ignored


def _aggregate(table: Table, events: list[Event], result: Result) -> None:
    rows: dict[Key, Row] = {}
    changes: list[Change] = []
    ignored = 0
    rules: dict[str, Aggregate] = {item.name: rule(item, table.stream) for item in table.aggregations}
    accumulators: dict[Key, dict[str, Any]] = {}
    times: dict[Key, int] = {}
    for event in events:
        values = {item.name.lower(): evaluate(item.expression, event.values) for item in table.group_by}
        if not takes_part_in_aggregates(tuple(values.values()), None if event.tombstone else event.values):
            ignored += not event.tombstone
            continue
        key = _key(table.key, values)
        state = accumulators.setdefault(key, {name: item.zero() for name, item in rules.items()})
        for item in table.aggregations:
            value = evaluate(item.argument, event.values) if item.argument else None
            state[item.name] = rules[item.name].add(state[item.name], value)
        times[key] = max(times.get(key, event.timestamp), event.timestamp)
        rows[key] = {name: item.result(state[name]) for name, item in rules.items()}
        changes.append(Change(key, rows[key], times[key], event.record.position))
    result.tables[table.name], result.changelogs[table.name], result.null_keys[table.name] = rows, changes, ignored


def rule(item: NamedAggregation, stream: Stream) -> Aggregate:
    """Return the rule of an aggregation, by its argument's type; NeedsSpark where only Spark can tell the type."""
    if item.kind == "count":
        return CountAll() if item.argument is None else Count()
    assert item.argument is not None
    kind = expression_type(item.argument, stream.columns)
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return SumIntegers()
    if kind in ("float", "double"):
        return SumDoubles()
    if kind is not None and kind.startswith("decimal"):
        precision, scale = (int(part) for part in kind[len("decimal(") : -1].split(",")) if "(" in kind else (10, 0)
        return SumDecimals(precision, scale)
    raise NeedsSpark(f"{item}: the model can't tell its type; write cast({item.argument} AS bigint), or use Spark.")
