"""The model runs a plan over lists, record by record, in plain Python: an oracle for tests, and quick feedback.

Spark's result counts; the model defines the result that Spark must give, since it is simple enough to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lakehouse.duration import duration_text
from lakehouse.model import keyed_table
from lakehouse.model.alert import find_crossings
from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, LateRecord, key_of, stream_change, to_epoch_ms
from lakehouse.model.rows import join_by_key, join_by_reference, rows_as_events
from lakehouse.model.step import apply_step
from lakehouse.model.stream_join import join_streams
from lakehouse.model.table_join import changes_as_events, join_with_table
from lakehouse.plan.alert import Crossings
from lakehouse.plan.app import App
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.lineage.clocks import placing_topics, shared_clocks
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.eras import TopicIds, era_of_tick, era_starts, first_ticks
from lakehouse.semantics.operators.truncate import several_partitions_error
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.time import future_time, kafka_time
from lakehouse.semantics.time.years import impossible_time_message, is_possible_time
from lakehouse.semantics.tombstone import Row


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record read through its source's schema. `key` is None for a null key, `value` for a null value.

    deleted_ms: the time of a delete, where its change log says it. truncates: it deletes all rows that were there
    before it.
    """

    key: Row | None
    value: Row | None
    deleted_ms: int | None = None
    truncates: bool = False


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that does not fit the schema, and the reason."""

    reason: str


EVENT_TIME = "the event time {} is null"
Decode = Callable[[Source, Record], DecodedRecord | BadRecord]


@dataclass(slots=True)
class Result:
    """The results of a run: rows, changelog, late records, null keys by table; quarantine by stream; sinks by topic."""

    tables: dict[str, dict[Key, Row]] = field(default_factory=dict)
    changelogs: dict[str, list[Change]] = field(default_factory=dict)
    topics: dict[str, list[Change]] = field(default_factory=dict)
    quarantine: dict[str, list[tuple[Record, str]]] = field(default_factory=dict)
    null_keys: dict[str, int] = field(default_factory=dict)
    late: dict[str, list[LateRecord]] = field(default_factory=dict)


@dataclass(slots=True)
class _StreamInputs:
    """The input of streams: records through their sources' schemas, and the changes of the tables before."""

    decoded: dict[str, list[Event]]
    records: dict[Position, Record]
    ids: TopicIds
    late: dict[StreamJoin, list[LateRecord]] = field(default_factory=dict)
    changes: dict[str, list[Change]] = field(default_factory=dict)

    @classmethod
    def from_records(
        cls, decoded: dict[str, list[Event]], records: list[Record], changes: dict[str, list[Change]]
    ) -> _StreamInputs:
        topic_ids = first_ticks((record.topic, record.topic_id, record.tick) for record in records)
        return cls(decoded, {record.position: record for record in records}, topic_ids, {}, changes)


def run(app: App, records: Iterable[Record], decode: Decode, until: int | None = None) -> Result:
    """Run an application over records, in position order, and return the results.

    until: an event time in milliseconds. Later records do not count, but still decide which of the others are late.
    The tables of other applications that it reads are among the results.
    """
    app = app.with_upstream
    ordered_records = sorted(records, key=lambda record: record.position)
    result = Result()
    for source in app.sources:
        result.quarantine[source.name] = []
    events_by_source = {
        source.name: _decode_records(source, ordered_records, decode, result.quarantine[source.name])
        for source in app.sources
    }
    inputs = _StreamInputs.from_records(events_by_source, ordered_records, result.changelogs)
    for table in app.tables:
        inputs.late.clear()  # the next joins are those of this table's own stream
        table_result = keyed_table.run_table(table, _events_with_clocks(table.stream, inputs), until)
        table_name = table.name
        result.tables[table_name] = table_result.rows
        result.changelogs[table_name] = [] if table.is_history else table_result.changes
        table_late = [*table_result.late, *(item for late_records in inputs.late.values() for item in late_records)]
        result.late[table_name] = sorted(table_late, key=lambda item: (item.position, item.span or ()))
        result.null_keys[table_name] = table_result.null_keys
    for sink in app.sinks:
        if isinstance(sink.source, Table):
            result.topics[sink.topic] = result.changelogs[sink.source.name]
        else:
            result.topics[sink.topic] = [
                stream_change(sink.source, event) for event in _stream_events(sink.source, inputs)
            ]
    return result


def events(stream: Stream, records: Iterable[Record], decode: Decode) -> list[Event]:
    """Return a stream's records, read from bronze records, in position order, without those that do not fit."""
    ordered_records = sorted(records, key=lambda record: record.position)
    inputs = _StreamInputs.from_records(
        {source.name: _decode_records(source, ordered_records, decode, []) for source in stream.sources},
        ordered_records,
        {},
    )
    for table in stream.tables:
        inputs.changes[table.name] = keyed_table.run_table(table, _events_with_clocks(table.stream, inputs)).changes
    return _events_with_clocks(stream, inputs)


def _decode_records(
    source: Source, records: list[Record], decode: Decode, quarantine: list[tuple[Record, str]]
) -> list[Event]:
    events = []
    expectations = source.judged_expectations
    keys_before: dict[Key, Row] = {}  # since the last truncate, each key at the place of its last record
    for record in records:
        if record.topic != source.topic:
            continue
        if source.applies_truncates and record.partition:
            raise several_partitions_error(source.topic)
        outcome = decode(source, record)
        if isinstance(outcome, DecodedRecord):
            column_values = {
                name.lower(): value for name, value in {**(outcome.value or {}), **(outcome.key or {})}.items()
            }
            record_time = kafka_time.record_time(record)
            column_values |= {"rowtime": record_time, "rowpartition": record.partition, "rowoffset": record.offset}
            if source.headers and outcome.value is not None:
                column_values[source.headers.lower()] = [
                    {"key": name, "value": value} for name, value in record.headers
                ]
            event_ms: int | None = record_time
            if source.event_time is not None and outcome.value is not None:
                event_ms = to_epoch_ms(evaluate(source.event_time, column_values))
            elif outcome.deleted_ms is not None and not time_refusal(
                source, outcome.deleted_ms, record, is_record_time=False
            ):
                event_ms = outcome.deleted_ms
            if event_ms is None:
                outcome = BadRecord(EVENT_TIME.format(source.event_time))
            elif refusal_reason := time_refusal(source, event_ms, record, is_record_time=outcome.value is None):
                outcome = BadRecord(refusal_reason)
            elif expectations and (
                (unmet := _unmet_expectation(expectations, outcome, column_values | {"rowtime": event_ms})) is not None
            ):
                outcome = BadRecord(unmet)
            else:
                column_values["rowtime"] = event_ms
                event = Event(
                    outcome.key is None, outcome.value is None, column_values, event_ms, record, record.position
                )
                if not outcome.truncates:
                    events.append(event)
                    if source.applies_truncates and outcome.key is not None:
                        key = key_of(source.key_names, column_values)
                        keys_before.pop(key, None)
                        keys_before[key] = {name.lower(): column_values[name.lower()] for name in source.key_names}
                    continue
                events += _truncate_events(event, keys_before.values())
                keys_before.clear()
        if isinstance(outcome, BadRecord):
            quarantine.append((record, outcome.reason))
    return events


def _unmet_expectation(expectations: Iterable[Expectation], decoded: DecodedRecord, column_values: Row) -> str | None:
    """Return why a record does not meet the first of the expectations that it fails; None if it meets all."""
    if decoded.value is None:
        return None
    for expectation in expectations:
        if evaluate(expectation.condition, column_values) is not True:
            return expectation.reason(column_values)
    return None


def _truncate_events(event: Event, keys: Iterable[Row]) -> list[Event]:
    """Return a truncate as deletes: see `lakehouse.semantics.operators.truncate`."""
    return [
        replace(event, null_key=False, values=event.values | key, position=event.position.with_number(number))
        for number, key in enumerate(keys)
    ]


def time_refusal(source: Source, event_ms: int, record: Record | int | None, *, is_record_time: bool) -> str | None:
    """Return why a time (milliseconds since 1970) is impossible, or too far ahead; None if it is neither.

    record: the record whose time it is, or just its timestamp if it is known to be judged; None if it is not judged.
    is_record_time: the time is the record's own, not a column's.
    """
    is_own = is_record_time or source.event_time is None
    time_name = "the record's timestamp" if is_own else f"the event time {source.event_time}"
    if not is_possible_time(event_ms):
        return impossible_time_message(time_name, event_ms)
    if is_own or source.max_ahead is None or record is None:
        return None
    if isinstance(record, Record):
        if not future_time.is_judged(record.timestamp, record.headers):
            return None
        record = record.timestamp
    if event_ms - record <= source.max_ahead:
        return None
    return future_time.ahead_message(time_name, duration_text(source.max_ahead), event_ms, record)


def _events_with_clocks(stream: Stream, inputs: _StreamInputs) -> list[Event]:
    """Return the records that reach a table, each with the clock that it moves where topics share a clock."""
    topics_with_clocks, events = shared_clocks(stream), _stream_events(stream, inputs)
    if not topics_with_clocks:
        return events
    clocks_by_topic = {
        topic: ("+".join(group), era_starts(inputs.ids, group)) for topic, group in topics_with_clocks.items()
    }
    clocked_events = []
    for event in events:
        if (topic_clock := clocks_by_topic.get(event.position.topic)) is not None:
            clock_name, era_ticks = topic_clock
            event = replace(
                event, clock=f"{clock_name}/{era_of_tick(era_ticks, event.position.tick)}/{event.position.partition}"
            )
        clocked_events.append(event)
    return clocked_events


def _stream_events(stream: Stream, inputs: _StreamInputs) -> list[Event]:
    match stream.source:
        case Source():
            events = inputs.decoded[stream.source.name]
        case Merge(streams):
            events = [
                replace(event, position=event.position.with_stream_number(number))
                for number, part in enumerate(streams)
                for event in _stream_events(part, inputs)
            ]
            events.sort(key=lambda event: event.position)
        case ChangesOf(table):
            events = changes_as_events(table, inputs.changes[table.name], inputs.records)
        case TableJoin(part, table):
            events = join_with_table(stream.source, _stream_events(part, inputs), inputs.changes[table.name])
        case StreamJoin(left, right):
            era_ticks = era_starts(inputs.ids, placing_topics(stream))
            late_records = inputs.late[stream.source] = []
            events = join_streams(
                stream.source, _stream_events(left, inputs), _stream_events(right, inputs), era_ticks, late_records
            )
        case Crossings(table=table):
            events = find_crossings(stream.source, inputs.changes[table.name], inputs.records)
        case RowsOf(table):
            events = rows_as_events(table, inputs.changes[table.name], inputs.records)
        case RowsJoin(left, right):
            both_changes = (inputs.changes[left.name], inputs.changes[right.name])
            events = join_by_key(stream.source, *both_changes, inputs.records)
        case ForeignKeyJoin(left, right):
            both_changes = (inputs.changes[left.name], inputs.changes[right.name])
            events = join_by_reference(stream.source, *both_changes, inputs.records)
    for step in stream.steps:
        events = [stepped_event for event in events for stepped_event in apply_step(step, event)]
    return events
