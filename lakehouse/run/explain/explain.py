"""The records behind one row of a table, folded step by step to its value.

The model folds them, by the same rules as Spark and without it. Which records were late depends on the whole lake, not
on the key's records alone: for tumbling and hopping windows and `order_by` the late table has them; for sessions and
sliding windows the model recomputes the stream time from all records that reach the table. Where the model can't fold
(an expression that only Spark evaluates, interventions, a table that was restored) the changes come from Spark's
changelog per event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse.errors import ConfigError, NeedsSpark, NotFound
from lakehouse.formats.codec.registered import FindSchemas
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas, record_decoder
from lakehouse.lake.store import is_table
from lakehouse.model import fold, keyed_table, model
from lakehouse.model.event import Event, LateRecord, to_sortable
from lakehouse.model.fold import TableResult
from lakehouse.plan.operator import VALID_FROM, WINDOW_COLUMNS
from lakehouse.plan.origin import Source
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Table
from lakehouse.run.explain.explanation import Explained, RowStep, compare_with_table, readable_record, rows_of_key
from lakehouse.run.explain.key_records import (
    SoughtKey,
    bronze_chunks,
    is_keyed_by_topic,
    parse_sought,
    sought_bytes,
    stream_chunks,
)
from lakehouse.run.explain.nearest import describe_nearest
from lakehouse.semantics.aggregate.collection import hashable_form
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.epoch_time import to_datetime, to_milliseconds
from lakehouse.semantics.moment import At, AtEvent, AtOffsets
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.window import Hopping, Session, Span

if TYPE_CHECKING:
    from lakehouse.lake.moment.cut import Cut
    from lakehouse.spark.open_lake import OpenLake

Listen = Callable[[int], None]
LATE_A_READ = 20_000
ALWAYS_MS = 2**62  # by this time every record is late, by its negative no record is


def explain(
    lake: Callable[[], OpenLake], layout: Layout, table: Table, key: str, moment_read: At | None = None,
    listen: Listen = lambda records: None,
) -> list[Explained]:  # fmt: skip
    """Explain the row of a key, or its rows, one for each window, in order. key: its text, without the window.

    lake: called only when Spark is needed; gives the layout's lake through a Spark session. Raises NotFound for a key
    that no record reaches, and for a moment that is not available; ConfigError.
    """
    from lakehouse.lake.moment import applied_records
    from lakehouse.run.explain import changelog_steps

    if table.is_history:
        raise ConfigError(
            f"explain {table.name!r}: it is a history, and each of its rows is that of the table from {VALID_FROM} on. "
            "Explain the table itself, at that time: --at."
        )
    applied_moment = applied_records.read_applied_records(layout, table, moment_read)
    sought_key = parse_sought(layout, table, key)
    try:
        if table.stream.tables:
            raise NeedsSpark("it reads other tables, whose changes only Spark can derive.")
        if meeting_streams(table.stream):
            raise NeedsSpark("it is made from a join of streams, whose records meet on Spark.")
        if changelog_steps.is_needed(layout, table):
            raise NeedsSpark("a table with interventions, or one that was restored, is folded by Spark.")
        steps_by_key = fold_steps(layout, table, sought_key, applied_moment.cut, listen)
    except NeedsSpark as error:
        if isinstance(moment_read, AtEvent | AtOffsets):
            raise ConfigError(
                f"explain {table.name!r} at {moment_read}: only Spark can explain this table, and it can do so now, "
                f"at a version, a tick or a commit time. Why it needs Spark: {error}"
            ) from error
        steps_by_key = changelog_steps.changelog_steps(lake().open(table), key, sought_key, applied_moment.cut.tick)
    if not steps_by_key:
        raise NotFound(
            f"key {key!r} of table {table.name!r}{'' if moment_read is None else f' at {moment_read}'}: no record in "
            f"bronze reaches it. {describe_nearest(layout, table, key)}"
        )
    rows_by_key = rows_of_key(lake, layout, table, steps_by_key, sought_key, moment_read, applied_moment.version)
    return [
        compare_with_table(
            table, row_key, steps_by_key.get(row_key, ()), rows_by_key.get(row_key), applied_moment.watermark
        )
        for row_key in sorted({*steps_by_key, *rows_by_key}, key=to_sortable)
    ]


def fold_steps(
    layout: Layout, table: Table, sought_key: SoughtKey, cut: Cut, listen: Listen = lambda records: None
) -> dict[Key, tuple[RowStep, ...]]:
    """Return the steps of a key's rows, by the model. Raises NeedsSpark."""
    events, horizons = _events_reaching_key(layout, table, sought_key, cut, listen)
    events.sort(key=lambda event: event.position)
    fold_result = keyed_table.run_table(table, events, cut.event_ms, horizons)
    counted_events = [event for event in events if cut.event_ms is None or event.timestamp <= cut.event_ms]
    return _steps_by_key(table, counted_events, fold_result, LakeSchemas(layout).find)


def _events_reaching_key(
    layout: Layout, table: Table, sought_key: SoughtKey, cut: Cut, listen: Listen
) -> tuple[list[Event], dict[Position, int] | None]:
    """Return the records that reach a key, and the stream time that judges each: None for a table without a clock."""
    own_topics = table.stream.own_topics
    source = table.stream.source
    # All records that came judge these, not the late table.
    needs_all = not isinstance(table.fold.window, Hopping | None)
    by_bytes = isinstance(source, Source) and is_keyed_by_topic(table, source) and not needs_all
    key_bytes = sought_bytes(source, sought_key) if by_bytes and isinstance(source, Source) else None
    decode = record_decoder(layout)
    key_events: list[Event] = []
    clock_events: list[Event] = []
    record_count = 0
    for topic in table.stream.topics:
        for chunk in (
            stream_chunks(layout, own_topics, table.stream, topic)
            if key_bytes is None
            else bronze_chunks(layout, own_topics, topic, key_bytes)
        ):
            record_count += len(chunk)
            listen(record_count)
            records = [record for record in chunk if record.tick <= cut.tick and _is_counted(cut, record)]
            for event in model.events(table.stream, records, decode):
                row_key = fold.reached_key(table.fold, table, event)
                if row_key is None:
                    continue
                if sought_key.is_key(row_key):
                    key_events.append(event)
                if needs_all:
                    clock_events.append(_reduce_event(event))
    if not table.has_clock:
        return key_events, None
    if needs_all:
        return key_events, fold.judging_times(table, sorted(clock_events, key=lambda event: event.position))
    late_windows = _late_windows(layout, table, {event.position[:1] + event.position[2:] for event in key_events})
    return key_events, {
        event.position: _late_horizon(table, late_windows.get(event.position[:1] + event.position[2:]))
        for event in key_events
    }


def _is_counted(cut: Cut, record: Record) -> bool:
    return bool(cut.lies_before(record.topic, record.topic_id, record.partition, record.offset))


def _reduce_event(event: Event) -> Event:
    """Return a record with no more than the clock needs: there are many records."""
    return replace(event, values={}, record=replace(event.record, key=None, value=None, headers=()))


def _late_windows(
    layout: Layout, table: Table, places: set[tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[Span | None]]:
    """Return the windows for which records at these places were late.

    A place is (tick, topic, partition, offset, ordinals).
    """
    if not is_table(layout.late(table.name)):
        return {}
    windows_by_place: dict[tuple[Any, ...], list[Span | None]] = {}
    # A table may have many late records, but a key only a few.
    column_names = ("tick", "topic", "partition", "offset", "ordinals", *WINDOW_COLUMNS)
    late_rows = reader.open_dataset(layout.late(table.name))
    for batch in late_rows.to_batches(columns=list(column_names), batch_size=LATE_A_READ):
        for row in batch.to_pylist():
            *place, ordinals, window_start, window_end = (row[name] for name in column_names)
            if (place_key := (*place, tuple(ordinals))) in places:
                span = (
                    None if window_start is None else Span(to_milliseconds(window_start), to_milliseconds(window_end))
                )
                windows_by_place.setdefault(place_key, []).append(span)
    return windows_by_place


def _late_horizon(table: Table, late_spans: list[Span | None] | None) -> int:
    """Return a time by which a record is late for exactly these windows."""
    if late_spans is None:
        return -ALWAYS_MS
    window = table.fold.window
    assert window is not None or late_spans == [None]
    close_times = [window.closing_time(span) for span in late_spans if span is not None and window is not None]
    return max(close_times, default=ALWAYS_MS)


def _steps_by_key(
    table: Table, events: Iterable[Event], fold_result: TableResult, find_schemas: FindSchemas
) -> dict[Key, tuple[RowStep, ...]]:
    """Put each record's effect beside the record, row by row."""
    outcomes_by_position: dict[Position, list[Change | LateRecord]] = {}
    outcomes: list[Change | LateRecord] = [*fold_result.changes, *fold_result.unseen, *fold_result.late]
    for outcome in outcomes:
        outcomes_by_position.setdefault(outcome.position, []).append(outcome)
    unqualified_ids = {id(change) for change in fold_result.unqualified}
    steps_by_key: dict[Key, list[RowStep]] = {}
    for event in events:
        row_key = fold.reached_key(table.fold, table, event)
        assert row_key is not None
        for row_outcome in outcomes_by_position.get(event.position, [None]):
            if isinstance(row_outcome, Change):
                assert row_outcome.key is not None
                row_steps, value = steps_by_key.setdefault(row_outcome.key, []), row_outcome.value
                row_before = row_steps[-1].row if row_steps else None
                if id(row_outcome) in unqualified_ids:
                    effect, value = "left out by HAVING", None
                else:
                    effect = _effect_of_event(table, row_before, value, event)
            else:
                bounds = (
                    tuple(map(to_datetime, row_outcome.span))
                    if row_outcome is not None and row_outcome.span is not None
                    else ()
                )
                row_steps = steps_by_key.setdefault((*row_key, *bounds), [])
                value = row_steps[-1].row if row_steps else None
                effect = "superseded" if row_outcome is None else "late"
            row_steps.append(_make_step(table, event, effect, value, find_schemas))
    return {key: tuple(row_steps) for key, row_steps in steps_by_key.items()}


def _effect_of_event(table: Table, before: dict[str, Any] | None, after: dict[str, Any] | None, event: Event) -> str:
    if after is None:
        absorbed = isinstance(table.fold.window, Session) and not event.tombstone
        return "unchanged" if before is None else "absorbed" if absorbed else "deleted"
    if before is None:
        return "inserted"
    return "unchanged" if hashable_form(before) == hashable_form(after) else "updated"


def _make_step(table: Table, event: Event, did: str, row: dict[str, Any] | None, find_schemas: FindSchemas) -> RowStep:
    key, value = readable_record(table, event.record, find_schemas)
    return RowStep(event.position, did, row, event.timestamp, event.record, key, value)
