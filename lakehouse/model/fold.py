"""The folds of tables in the model: one record after another through the operators of `lakehouse.semantics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import singledispatch
from itertools import groupby, zip_longest
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, LateRecord, key_of, stream_change, to_sortable
from lakehouse.plan.aggregation import rule_for_model
from lakehouse.plan.operator import VALID_TO, Aggregate, Expire, Final, Fold, Latest, LatestBy, LatestSent, RowHistory
from lakehouse.plan.table import Table
from lakehouse.semantics.aggregate.collection import exact_form
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.epoch_time import to_datetime, to_microseconds, to_milliseconds
from lakehouse.semantics.operators.cell import Arrival, Cell, CellChange, Cells
from lakehouse.semantics.operators.row_history import HeldRow, HistoryPoint, LatestHistory, merge_equal_rows
from lakehouse.semantics.operators.undo import same_change
from lakehouse.semantics.position import Position
from lakehouse.semantics.time.clock import Clock
from lakehouse.semantics.time.window import Span
from lakehouse.semantics.tombstone import Effect, Row, effect_on_table, order_of_newest, takes_part_in_aggregates


@dataclass(slots=True)
class TableResult:
    """The results for a table: its rows, its changelog per event, late records, the number of ignored null keys.

    unseen: the changes that HAVING or `suppress` keep out of the changelog. unqualified: the changes of rows that
    HAVING hides.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    unseen: list[Change] = field(default_factory=list)
    unqualified: list[Change] = field(default_factory=list)
    late: list[LateRecord] = field(default_factory=list)
    null_keys: int = 0


@dataclass(frozen=True, slots=True)
class FoldInput:
    """The input of a table's fold: records in position order. until, judging_times: see `keyed_table.run_table`."""

    table: Table
    events: Iterable[Event]
    until: int | None = None
    judging_times: Mapping[Position, int] | None = None

    def counts(self, event: Event) -> bool:
        return self.until is None or event.timestamp <= self.until


@singledispatch
def fold_events(fold: Fold, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    """Yield the changes of a table's kept rows, in position order. result: receives late records and null keys."""
    raise NotImplementedError(type(fold))


@fold_events.register
def _fold_latest(fold: Latest, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    events = list(fold_input.events)
    for event, following_event in zip_longest(events, events[1:]):
        if not fold_input.counts(event):
            continue
        change = stream_change(fold_input.table.stream, event)
        if _is_first_half(event, following_event):
            assert following_event is not None
            if stream_change(fold_input.table.stream, following_event).key == change.key:
                continue  # the row that is put in replaces it
        if effect_on_table(change.key is None, change.value) is Effect.IGNORE:
            result.null_keys += 1
        else:
            yield change


@fold_events.register
def _fold_latest_sent(fold: LatestSent, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    """Keep the latest value of each column that was sent. A delete forgets them all."""
    rows_by_key: dict[Key | None, Row] = {}
    fields = dict(fold.fields)
    for change in _fold_latest(fold, fold_input, result):
        row: Row = {}
        if change.value is not None:
            unsent, row_before = change.value[fold.unsent], rows_by_key.get(change.key, {})
            assert isinstance(unsent, list)
            row = {
                name: row_before.get(name) if fields[name] in unsent else value
                for name, value in change.value.items()
                if name != fold.unsent
            }
        rows_by_key[change.key] = row
        yield replace(change, value=row or None)


def _is_first_half(event: Event, following_event: Event | None) -> bool:
    """Say whether a record takes out a row, and the next one is of the same change and puts a row in."""
    return event.undo and following_event is not None and same_change(event.position, following_event.position)


@fold_events.register
def _fold_latest_by(fold: LatestBy, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    """Keep the latest value by an order of the records' own. A delete leaves its order behind, as a marker."""
    orders_by_key: dict[Key, Any] = {}
    clock = Clock()
    for event in fold_input.events:
        change = stream_change(fold_input.table.stream, event)
        if change.key is None:
            result.null_keys += 1
            continue
        order = _order_of(fold, event)
        if order is not None and fold.remembers is not None:
            # Markers expire by the watermark: a partition that lags behind it must not bring deleted rows back.
            times_by_position, order_ms = fold_input.judging_times, order // 1000
            judging_ms = (
                times_by_position[event.position]
                if times_by_position is not None
                else _advance_clock(clock, event, order_ms, fold_input.table.lag)
            )
            order = order if order_ms > judging_ms - fold.remembers else None
        if fold.is_always_deleted and event.tombstone:
            order = order_of_newest(orders_by_key.get(change.key))
        if order is None:
            result.late.append(LateRecord(event.record.identity, event.position, None))
        elif fold_input.counts(event) and (change.key not in orders_by_key or orders_by_key[change.key] <= order):
            orders_by_key[change.key] = order
            yield change


def _order_of(fold: LatestBy, event: Event) -> Any:
    """Return a record's place in the order: microseconds for a time, else the number; None if it has none."""
    order = evaluate(fold.order, event.values)
    if isinstance(order, datetime):
        return to_microseconds(order)
    if fold.is_time:
        return (event.timestamp if order is None else order) * 1000
    return order


@fold_events.register
def _fold_aggregate(fold: Aggregate, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    yield from _AggregateGroups(fold, fold_input, result).changes()


def _clock_partition(event: Event) -> str:
    """Return the name of a record's partition for a clock."""
    return event.clock or f"{event.record.topic}/{event.record.topic_id}/{event.record.partition}"


def _advance_clock(clock: Clock, event: Event, event_ms: int, lag: int | None) -> int:
    """Let a record move a clock; return the time that judges the record. lag: the table's own."""
    judging_ms = clock.observe(_clock_partition(event), event_ms, event.position.order_time)
    assert clock.watermark is not None
    return judging_ms if lag is None else max(judging_ms, clock.watermark - lag)


@fold_events.register
def _fold_history(fold: RowHistory, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    changes = _changes_of_points(fold, fold_input, result)
    yield from changes if fold.track is None else _changes_of_tracked(changes, fold.track)


def _changes_of_tracked(changes: Iterable[Change], track: tuple[str, ...]) -> Iterator[Change]:
    """Yield the changes of a history that tracks some columns, from those of its points."""
    points_by_group: dict[Key, dict[int, HeldRow[Row]]] = {}
    rows_by_group: dict[Key, dict[int, HeldRow[Row]]] = {}
    for (position, group), own_changes in groupby(changes, lambda change: (change.position, _group_of(change))):
        points = points_by_group.setdefault(group, {})
        for change in own_changes:
            if change.value is None:
                points.pop(change.timestamp, None)
                continue
            end_time, values = change.value[VALID_TO], {name: change.value[name] for name in track}
            end_ms = None if end_time is None else to_milliseconds(end_time)
            points[change.timestamp] = HeldRow(change.timestamp, end_ms, values)
        ordered_points = [points[start_ms] for start_ms in sorted(points)]
        rows_before = rows_by_group.get(group, {})
        rows_by_group[group] = rows = {row.start: row for row in merge_equal_rows(ordered_points, _say_the_same)}
        for start_ms in rows_before.keys() - rows.keys():
            yield _change_of_history(group, start_ms, None, None, position)
        for start_ms, row in rows.items():
            if rows_before.get(start_ms) != row:
                yield _change_of_history(group, start_ms, row.end, row.row, position)


def _group_of(change: Change) -> Key:
    assert change.key is not None
    return change.key[:-1]


def _say_the_same(row: Row, other_row: Row) -> bool:
    return bool(exact_form(row) == exact_form(other_row))


def _changes_of_points(fold: RowHistory, fold_input: FoldInput, result: TableResult) -> Iterator[Change]:
    if isinstance(fold.row_fold, Aggregate):
        yield from _HistoryOfGroups(fold.row_fold, fold_input, result).changes()
        return
    histories: dict[Key, LatestHistory[Row]] = {}
    for event in fold_input.events:
        change = stream_change(fold_input.table.stream, event)
        if change.key is None:
            result.null_keys += 1
            continue
        order = _order_of(fold.row_fold, event) if isinstance(fold.row_fold, LatestBy) else 0
        if order is None:
            result.late.append(LateRecord(event.record.identity, event.position, None))
        elif fold_input.counts(event):
            history = histories.setdefault(change.key, LatestHistory())
            new_point = HistoryPoint(event.timestamp, (order, event.position), change.value)
            removed_points, new_points = history.put(new_point)
            for point in removed_points:
                yield _change_of_history(change.key, point.time, None, None, event.position)
            for point in new_points:
                yield _change_of_history(change.key, point.time, history.end_of(point), point.row, event.position)


def _change_of_history(group: Key, begin_ms: int, end_ms: int | None, row: Row | None, position: Position) -> Change:
    """Return the change of a row of a history. end_ms: when it ceases to hold; None for still. row: None for no row."""
    end_time = None if end_ms is None else to_datetime(end_ms)
    value = None if row is None else {VALID_TO: end_time, **row}
    return Change((*group, to_datetime(begin_ms)), value, begin_ms, position)


@singledispatch
def reached_key(fold: Fold, table: Table, event: Event) -> Key | None:
    """Return the key that a record changes, without the window; None for a record that takes no part."""
    raise NotImplementedError(type(fold))


@reached_key.register
def _reached_key_of_row(fold: Latest, table: Table, event: Event) -> Key | None:
    return None if event.null_key else key_of(table.key, event.values)


@reached_key.register
def _reached_key_of_history(fold: RowHistory, table: Table, event: Event) -> Key | None:
    return reached_key(fold.row_fold, replace(table, key=table.group), event)


@reached_key.register
def _reached_group(fold: Aggregate, table: Table, event: Event) -> Key | None:
    group = {item.name.lower(): evaluate(item.expression, event.values) for item in fold.grouping}
    if not takes_part_in_aggregates(tuple(group.values()), None if event.tombstone else event.values):
        return None
    return key_of([item.name for item in fold.grouping], group)


def judging_times(table: Table, events: Iterable[Event]) -> dict[Position, int]:
    """Return the time that judges each record of an aggregate. events: all its records, in position order."""
    clock = Clock(table.idle)
    return {event.position: _advance_clock(clock, event, event.timestamp, table.lag) for event in events}


class _AggregateGroups:
    """The rows of an aggregate: by group, then by window."""

    def __init__(self, fold: Aggregate, fold_input: FoldInput, result: TableResult) -> None:
        self._fold, self._fold_input, self._result, table = fold, fold_input, result, fold_input.table
        self._rules = tuple(rule_for_model(item, table.stream.columns) for item in fold.aggregations)
        self._operator = table.rule(self._rules)
        # If other records move the clock too, nothing closes and nothing expires.
        is_closing = fold_input.judging_times is None
        self._final, self._expire = (table.find(Final), table.find(Expire)) if is_closing else (None, None)
        # The first judges records. Only records that count move the second, which closes windows and expires rows.
        self._judging_clock, self._clock = Clock(table.idle), Clock(table.idle)
        self._groups: dict[Key, Cells] = {}

    def changes(self) -> Iterable[Change]:
        events = list(self._fold_input.events)
        for event, following_event in zip_longest(events, events[1:]):
            group = self._group_key(event)
            if group is None:
                self._result.null_keys += not event.tombstone
                continue
            group_changes = list(self._fold_event(group, event))
            # Inside one group both halves are one change.
            if not (_is_first_half(event, following_event) and group == self._group_key(following_event)):
                yield from group_changes
        self._drop_expired()

    def _fold_event(self, group: Key, event: Event) -> Iterable[Change]:
        times_by_position, position = self._fold_input.judging_times, event.position
        if times_by_position is not None:
            judging_ms = times_by_position[position]
        else:
            judging_ms = _advance_clock(self._judging_clock, event, event.timestamp, self._fold_input.table.lag)
        if not self._fold_input.counts(event):
            return
        watermark_before = self._clock.watermark
        self._clock.observe(_clock_partition(event), event.timestamp, position.order_time)
        argument_values = tuple(
            evaluate(i.argument, event.values) if i.argument else None for i in self._fold.aggregations
        )
        group_cells = self._groups.setdefault(group, Cells())
        arrival = Arrival(
            event.timestamp, judging_ms, position, argument_values, self._upstream_row_key(event), event.undo
        )
        cell_steps, late_spans = self._operator.apply(group_cells, arrival)
        self._result.late += [LateRecord(event.record.identity, position, span) for span in late_spans]
        if self._final is not None:
            yield from self._close_windows(position, watermark_before)
            return
        yield from self._changes_of_steps(group, cell_steps, position)

    def _changes_of_steps(self, group: Key, steps: list[CellChange], position: Position) -> Iterable[Change]:
        for step in steps:
            yield self._change_of_cell(group, step.span, step.cell, step.time, position)

    def _group_key(self, event: Event | None) -> Key | None:
        return None if event is None else _reached_group(self._fold, self._fold_input.table, event)

    def _upstream_row_key(self, event: Event) -> str:
        """Return the key of the upstream row that a record changes, as a text."""
        return str(key_of(self._fold_input.table.stream.key, event.values))

    def _close_windows(self, position: Position, watermark_before: int | None) -> Iterable[Change]:
        """Yield the final changes of the windows that this record has closed, by the end of the window."""
        window, watermark = self._fold.window, self._clock.watermark
        assert window is not None
        assert watermark is not None
        closed_windows = [
            (span, group)
            for group, cells in self._groups.items()
            for span in cells
            if span is not None and window.closing_time(span) <= watermark
        ]
        for span, group in sorted(closed_windows, key=lambda item: (item[0].end, item[0].start, to_sortable(item[1]))):
            cell = self._groups[group][span]
            if watermark_before is None or window.closing_time(span) > watermark_before:
                yield self._change_of_cell(group, span, cell, cell.time, position)
            # New sliding windows still begin with the values of a closed one.
            if span.end + window.needed_after_end < watermark:
                del self._groups[group][span]

    def _change_of_cell(
        self, group: Key, span: Span | None, cell: Cell | None, change_ms: int, position: Position
    ) -> Change:
        window_bounds = () if span is None else (to_datetime(span.start), to_datetime(span.end))
        return Change((*group, *window_bounds), self._row_of_cell(cell), change_ms, position)

    def _row_of_cell(self, cell: Cell | None) -> Row | None:
        if cell is None:
            return None
        column_names = [item.name for item in self._fold.aggregations]
        results = [rule.result(accumulator) for rule, accumulator in zip(self._rules, cell.accumulators, strict=True)]
        return dict(zip(column_names, results, strict=True))

    def _drop_expired(self) -> None:
        """Drop rows past their retention at the end, without a change: they expire like a store's segments."""
        watermark = self._clock.watermark
        if self._expire is not None and watermark is not None:
            oldest_kept_ms = watermark - self._expire.after
            for key in [key for key in self._result.rows if to_milliseconds(key[-1]) < oldest_kept_ms]:
                del self._result.rows[key]


class _HistoryOfGroups(_AggregateGroups):
    """The groups of a history: a record's changes are rows side by side, and the last one is the last of its group."""

    def _changes_of_steps(self, group: Key, steps: list[CellChange], position: Position) -> Iterable[Change]:
        for step, next_step in zip_longest(steps, steps[1:]):
            assert step.span is not None
            end_ms = None if next_step is None or next_step.span is None else next_step.span.start
            yield _change_of_history(group, step.span.start, end_ms, self._row_of_cell(step.cell), position)
