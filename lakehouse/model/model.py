"""The model: a plan run over lists, record by record, in plain Python. It is the oracle, and gives quick feedback.

Spark's result is what counts; the model defines what Spark must give, because it is simple enough to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lakehouse.duration import duration_text
from lakehouse.model import keyed_table
from lakehouse.model.alert import crossings
from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, Late, epoch_ms, stream_change
from lakehouse.model.joined import changes_as_events, joined
from lakehouse.model.rows import joined_by_key, joined_by_reference, rows_as_events
from lakehouse.model.step import applied
from lakehouse.model.stream_join import joined_streams
from lakehouse.plan.alert import Crossings
from lakehouse.plan.app import App
from lakehouse.plan.lineage.clocks import placing, shared_clocks
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.semantics import ahead, kafka_time
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.eras import TopicIds, begins, era, first_ticks
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Row
from lakehouse.semantics.years import in_range, refusal


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record read through its source's schema. `key` is None for a null key, `value` for a null value."""

    key: Row | None
    value: Row | None


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that does not fit the schema, and the reason."""

    reason: str


EVENT_TIME = "the event time {} is null"
Decode = Callable[[Source, Record], Decoded | Bad]


@dataclass(slots=True)
class Result:
    """The results of a run: rows, changelog, late records, null keys by table; quarantine by stream; sinks by topic."""

    tables: dict[str, dict[Key, Row]] = field(default_factory=dict)
    changelogs: dict[str, list[Change]] = field(default_factory=dict)
    topics: dict[str, list[Change]] = field(default_factory=dict)
    quarantine: dict[str, list[tuple[Record, str]]] = field(default_factory=dict)
    null_keys: dict[str, int] = field(default_factory=dict)
    late: dict[str, list[Late]] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """The input of streams: records through their sources' schemas, and the changes of the tables before."""

    decoded: dict[str, list[Event]]
    records: dict[Position, Record]
    ids: TopicIds
    late: dict[StreamJoin, list[Late]] = field(default_factory=dict)
    changes: dict[str, list[Change]] = field(default_factory=dict)

    @classmethod
    def of(cls, decoded: dict[str, list[Event]], records: list[Record], changes: dict[str, list[Change]]) -> _Known:
        ids = first_ticks((record.topic, record.topic_id, record.tick) for record in records)
        return cls(decoded, {record.position: record for record in records}, ids, {}, changes)


def run(app: App, records: Iterable[Record], decode: Decode, until: int | None = None) -> Result:
    """Run an application over records, in position order, and return the results.

    until: an event time in milliseconds. Later records do not count, but still decide which of the others are late.
    """
    ordered = sorted(records, key=lambda record: record.position)
    result = Result()
    for source in app.sources:
        result.quarantine[source.name] = []
    decoded = {source.name: _decode(source, ordered, decode, result.quarantine[source.name]) for source in app.sources}
    known = _Known.of(decoded, ordered, result.changelogs)
    for table in app.tables:
        known.late.clear()  # of the joins of this table's own stream
        made = keyed_table.run(table, _clocked(table.stream, known), until)
        name = table.name
        result.tables[name], result.changelogs[name] = made.rows, made.changes
        late = [*made.late, *(item for of in known.late.values() for item in of)]
        result.late[name] = sorted(late, key=lambda item: (item.position, item.span or ()))
        result.null_keys[name] = made.null_keys
    for sink in app.sinks:
        if isinstance(sink.of, Table):
            result.topics[sink.topic] = result.changelogs[sink.of.name]
        else:
            result.topics[sink.topic] = [stream_change(sink.of, event) for event in _events(sink.of, known)]
    return result


def events(stream: Stream, records: Iterable[Record], decode: Decode) -> list[Event]:
    """Return a stream's records, made from bronze records, in position order; those that do not fit are left out."""
    ordered = sorted(records, key=lambda record: record.position)
    known = _Known.of({source.name: _decode(source, ordered, decode, []) for source in stream.sources}, ordered, {})
    for table in stream.tables:
        known.changes[table.name] = keyed_table.run(table, _clocked(table.stream, known)).changes
    return _clocked(stream, known)


def _decode(source: Source, records: list[Record], decode: Decode, quarantine: list[tuple[Record, str]]) -> list[Event]:
    events = []
    for record in records:
        if record.topic != source.topic:
            continue
        item = decode(source, record)
        if isinstance(item, Decoded):
            values = {name.lower(): value for name, value in {**(item.value or {}), **(item.key or {})}.items()}
            own = kafka_time.of(record)
            values |= {"rowtime": own, "rowpartition": record.partition, "rowoffset": record.offset}
            if source.headers and item.value is not None:
                values[source.headers.lower()] = [{"key": name, "value": value} for name, value in record.headers]
            timestamp: int | None = own
            if source.event_time is not None and item.value is not None:
                timestamp = epoch_ms(evaluate(source.event_time, values))
            if timestamp is None:
                item = Bad(EVENT_TIME.format(source.event_time))
            elif (refused := time_refusal(source, timestamp, record, own=item.value is None)) is not None:
                item = Bad(refused)
            else:
                values["rowtime"] = timestamp
                events.append(Event(item.key is None, item.value is None, values, timestamp, record, record.position))
        if isinstance(item, Bad):
            quarantine.append((record, item.reason))
    return events


def time_refusal(source: Source, ms: int, record: Record | int | None, *, own: bool) -> str | None:
    """Return why a time (milliseconds since 1970) is impossible, or too far ahead; None if it is neither.

    record: whose time it is; its own timestamp alone, if it is known to be judged; None if it is not judged.
    own: it is the record's own time, not a column's.
    """
    is_own = own or source.event_time is None
    what = "the record's timestamp" if is_own else f"the event time {source.event_time}"
    if not in_range(ms):
        return refusal(what, ms)
    if is_own or source.max_ahead is None or record is None:
        return None
    if isinstance(record, Record):
        if not ahead.is_judged(record.timestamp, record.headers):
            return None
        record = record.timestamp
    if ms - record <= source.max_ahead:
        return None
    return ahead.refusal(what, duration_text(source.max_ahead), ms, record)


def _clocked(stream: Stream, known: _Known) -> list[Event]:
    """The records that reach a table, each with the clock that it moves where topics have one together."""
    shared, events = shared_clocks(stream), _events(stream, known)
    if not shared:
        return events
    names = {topic: ("+".join(group), begins(known.ids, group)) for topic, group in shared.items()}
    made = []
    for event in events:
        if (of := names.get(event.position.topic)) is not None:
            name, begun = of
            event = replace(event, clock=f"{name}/{era(begun, event.position.tick)}/{event.position.partition}")
        made.append(event)
    return made


def _events(stream: Stream, known: _Known) -> list[Event]:
    match stream.source:
        case Source():
            events = known.decoded[stream.source.name]
        case Merge(streams):
            events = [
                replace(event, position=event.position.merged(number))
                for number, part in enumerate(streams)
                for event in _events(part, known)
            ]
            events.sort(key=lambda event: event.position)
        case ChangesOf(table):
            events = changes_as_events(table, known.changes[table.name], known.records)
        case TableJoin(part, table):
            events = joined(stream.source, _events(part, known), known.changes[table.name])
        case StreamJoin(left, right):
            begun = begins(known.ids, placing(stream))
            late = known.late[stream.source] = []
            events = joined_streams(stream.source, _events(left, known), _events(right, known), begun, late)
        case Crossings(table=table):
            events = crossings(stream.source, known.changes[table.name], known.records)
        case RowsOf(table):
            events = rows_as_events(table, known.changes[table.name], known.records)
        case RowsJoin(left, right):
            sides = (known.changes[left.name], known.changes[right.name])
            events = joined_by_key(stream.source, *sides, known.records)
        case ForeignKeyJoin(left, right):
            sides = (known.changes[left.name], known.changes[right.name])
            events = joined_by_reference(stream.source, *sides, known.records)
    for step in stream.steps:
        events = [made for event in events for made in applied(step, event)]
    return events
