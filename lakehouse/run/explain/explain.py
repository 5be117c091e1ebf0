"""The records behind one row of a table, folded step by step to its value.

The model folds them, with the same rules as on Spark; no Spark is needed then. Which records were late depends on the
whole lake, not on the key's records alone: for tumbling and hopping windows and `order_by` the late table tells; for
sessions and sliding windows the stream time is recomputed from all records that reach the table. Where the model can't
fold (an expression that only Spark evaluates, interventions, a table that was restored) the changes come from Spark's
changelog per event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse.errors import ConfigError, NeedsSpark, NotFound
from lakehouse.formats.decode import decode
from lakehouse.lake import reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.earlier import check_late
from lakehouse.lake.layout import Layout
from lakehouse.model import fold, keyed_table, model
from lakehouse.model.event import Event, Late, comparable
from lakehouse.model.fold import Made
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.origin import Source
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Table
from lakehouse.run.explain.explanation import Explained, RowStep, checked, rows_of_key, written
from lakehouse.run.explain.nearest import nearest
from lakehouse.run.explain.of_key import Sought, bronze, bytes_of, is_keyed_by_topic, sought
from lakehouse.semantics.aggregate.collection import frozen
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, milliseconds, moment
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.window import Hopping, Session, Span

if TYPE_CHECKING:
    from lakehouse.lake.moment.cut import Cut
    from lakehouse.spark.open_lake import OpenLake

Listen = Callable[[int], None]
LATE_A_READ = 20_000
ALWAYS_MS = 2**62  # judged by this time every record is late, by its negative none


def explain(
    lake: Callable[[], OpenLake], layout: Layout, table: Table, key: str, at: At | None = None,
    listen: Listen = lambda records: None,
) -> list[Explained]:  # fmt: skip
    """Explain the rows of a key: one, or one a window, in order. key: its text, without the window.

    lake: gives the layout's lake through a Spark session, which starts only when it is needed. Raises NotFound for a
    key that no record reaches, and for a moment that is not available; ConfigError.
    """
    from lakehouse.lake.moment import applied
    from lakehouse.run.explain import changelog

    told, wanted = applied.told(layout, table, at), sought(layout, table, key)
    try:
        if table.stream.tables:
            raise NeedsSpark("it reads other tables, whose changes only Spark can derive.")
        if meetings(table.stream):
            raise NeedsSpark("it is made from a join of streams, whose records meet on Spark.")
        if changelog.is_needed(layout, table):
            raise NeedsSpark("a table with interventions, or one that was restored, is folded by Spark.")
        steps = folded(layout, table, wanted, told.cut, listen)
    except NeedsSpark as error:
        if isinstance(at, AtEvent | AtOffsets):
            raise ConfigError(
                f"explain {table.name!r} at {at}: only Spark can explain this table, and it can do so now, at a "
                f"version, a tick or a commit time. Why it needs Spark: {error}"
            ) from error
        steps = changelog.steps(lake().open(table), key, wanted, told.cut.tick)
    if not steps:
        raise NotFound(
            f"key {key!r} of table {table.name!r}{'' if at is None else f' at {at}'}: no record in bronze reaches it. "
            f"{nearest(layout, table, key)}"
        )
    rows = rows_of_key(lake, layout, table, steps, wanted, at, told.version)
    return [
        checked(table, of, steps.get(of, ()), rows.get(of), told.watermark)
        for of in sorted({*steps, *rows}, key=comparable)
    ]


def folded(
    layout: Layout, table: Table, key: Sought, cut: Cut, listen: Listen = lambda records: None
) -> dict[Key, tuple[RowStep, ...]]:
    """Return the steps of a key's rows, by the model. Raises NeedsSpark."""
    events, judged = _reaching(layout, table, key, cut, listen)
    events.sort(key=lambda event: event.position)
    made = keyed_table.run(table, events, cut.event_ms, judged)
    counted = [event for event in events if cut.event_ms is None or event.timestamp <= cut.event_ms]
    return _steps(table, counted, made)


def _reaching(
    layout: Layout, table: Table, key: Sought, cut: Cut, listen: Listen
) -> tuple[list[Event], dict[Position, int] | None]:
    """The records that reach a key, and the time by which each is judged: None for a table without a clock."""
    own = {source.topic for source in table.stream.sources if source.own_table}
    source = table.stream.source
    # These are judged by all records that came, not by the late table.
    needs_all = not isinstance(table.fold.window, Hopping | None)
    by_bytes = isinstance(source, Source) and is_keyed_by_topic(table, source) and not needs_all
    wanted = bytes_of(source, key) if by_bytes and isinstance(source, Source) else None
    found: list[Event] = []
    moving: list[Event] = []
    count = 0
    for topic in table.stream.topics:
        for chunk in bronze(layout, own, topic, wanted):
            count += len(chunk)
            listen(count)
            records = [record for record in chunk if record.tick <= cut.tick and _counts(cut, record)]
            for event in model.events(table.stream, records, decode):
                of = fold.reached(table.fold, table, event)
                if of is None:
                    continue
                if key.is_key(of):
                    found.append(event)
                if needs_all:
                    moving.append(_light(event))
    if not table.has_clock:
        return found, None
    if needs_all:
        return found, fold.horizons(table, sorted(moving, key=lambda event: event.position))
    late = _late(layout, table, {event.position[:1] + event.position[2:] for event in found})
    return found, {
        event.position: _horizon(table, late.get(event.position[:1] + event.position[2:])) for event in found
    }


def _counts(cut: Cut, record: Record) -> bool:
    return bool(cut.lies_before(record.topic, record.topic_id, record.partition, record.offset))


def _light(event: Event) -> Event:
    """A record reduced to what the clock needs: there are many of them."""
    return replace(event, values={}, record=replace(event.record, key=None, value=None, headers=()))


def _late(layout: Layout, table: Table, places: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Span | None]]:
    """The windows that records at these places were late for; a place is (tick, topic, partition, offset, ordinals)."""
    if not is_table(layout.late(table.name)):
        return {}
    found: dict[tuple[Any, ...], list[Span | None]] = {}
    # A table may have many late records, a key only a few.
    columns = ("tick", "topic", "partition", "offset", "ordinals", *WINDOW_COLUMNS)
    rows = reader.dataset(layout.late(table.name))
    check_late(rows.schema.names, table.name)
    for batch in rows.to_batches(columns=list(columns), batch_size=LATE_A_READ):
        for row in batch.to_pylist():
            *place, ordinals, start, end = (row[name] for name in columns)
            if (of := (*place, tuple(ordinals))) in places:
                span = None if start is None else Span(milliseconds(start), milliseconds(end))
                found.setdefault(of, []).append(span)
    return found


def _horizon(table: Table, late: list[Span | None] | None) -> int:
    """A time by which a record is late for just these windows."""
    if late is None:
        return -ALWAYS_MS
    window = table.fold.window
    assert window is not None or late == [None]
    closed = [window.closes(span) for span in late if span is not None and window is not None]
    return max(closed, default=ALWAYS_MS)


def _steps(table: Table, events: Iterable[Event], made: Made) -> dict[Key, tuple[RowStep, ...]]:
    """Put the effect of each record beside it, row by row."""
    happened: dict[Position, list[Change | Late]] = {}
    outcomes: list[Change | Late] = [*made.changes, *made.unseen, *made.late]
    for outcome in outcomes:
        happened.setdefault(outcome.position, []).append(outcome)
    left_out = {id(change) for change in made.unqualified}
    found: dict[Key, list[RowStep]] = {}
    for event in events:
        base = fold.reached(table.fold, table, event)
        assert base is not None
        for item in happened.get(event.position, [None]):
            if isinstance(item, Change):
                assert item.key is not None
                steps, value = found.setdefault(item.key, []), item.value
                before = steps[-1].row if steps else None
                if id(item) in left_out:
                    did, value = "left out by HAVING", None
                else:
                    did = _did(table, before, value, event)
            else:
                bounds = tuple(map(moment, item.span)) if item is not None and item.span is not None else ()
                steps = found.setdefault((*base, *bounds), [])
                value, did = steps[-1].row if steps else None, "superseded" if item is None else "late"
            steps.append(_step(table, event, did, value))
    return {key: tuple(steps) for key, steps in found.items()}


def _did(table: Table, before: dict[str, Any] | None, after: dict[str, Any] | None, event: Event) -> str:
    if after is None:
        absorbed = isinstance(table.fold.window, Session) and not event.tombstone
        return "unchanged" if before is None else "absorbed" if absorbed else "deleted"
    if before is None:
        return "inserted"
    return "unchanged" if frozen(before) == frozen(after) else "updated"


def _step(table: Table, event: Event, did: str, row: dict[str, Any] | None) -> RowStep:
    key, value = written(table, event.record)
    return RowStep(event.position, did, row, event.timestamp, event.record, key, value)
