"""The steps of a key where the model can't fold: from Spark's changelog per event, with the records from bronze.

Records that changed nothing (superseded, left out by HAVING, suppressed) are in no changelog, so they are not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.properties import SKIP
from lakehouse.lake.store import is_table
from lakehouse.model.event import key_of
from lakehouse.plan.table import Table
from lakehouse.run.explain.explanation import RowStep, readable_record
from lakehouse.run.explain.key_records import COLUMNS, SoughtKey, record_of
from lakehouse.semantics.aggregate.collection import hashable_form
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from lakehouse.spark.open_lake import OpenTable

KINDS = {
    "late": "late records taken in", "fixed": "fixed records taken in", "refold": "rebuilt from bronze",
    "revert": "reverted", "swap": "swapped in",
}  # fmt: skip
TickPlace = tuple[int, str, int, int]


def is_needed(layout: Layout, table: Table) -> bool:
    """Say whether a table has had interventions, or was restored from a topic."""
    import pyarrow.dataset as ds

    if SKIP in reader.open_table(layout.silver(table.name), table.name).metadata().configuration:
        return True
    if not is_table(layout.interventions):
        return False
    interventions = reader.open_dataset(layout.interventions)
    return bool(interventions.count_rows(filter=ds.field("table") == table.name))


def changelog_steps(
    open_table: OpenTable, key: str, sought_key: SoughtKey, tick: int
) -> dict[Key, tuple[RowStep, ...]]:
    """Return the steps of a key's rows up to a tick, in order. key: its text, and what it means."""
    table = open_table.table
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.changelog import changefeed, published

    changes = published.rows_of_frame(changefeed.changes_of_key(changefeed.per_event(open_table, 0, tick), table, key))
    row_entries: list[tuple[Position, Key, dict[str, Any] | None]] = []
    row_entries += [(Position.from_fields(row["_position"]), _row_key(table, row), row) for row in changes]
    row_entries += [(place, row_key, None) for place, row_key in _late_positions(open_table, key, sought_key, tick)]
    row_entries.sort(key=lambda item: item[0])
    record_places = {
        (position.tick, position.topic, position.partition, position.offset) for position, _, _ in row_entries
    }
    records = _records_at_places(open_table.layout, table, record_places)
    # An intervention in an upstream table reaches this one as changes of its rows.
    decisions_by_tick = {
        intervention.at: intervention
        for read_table in (*table.stream.tables, table)
        for intervention in interventions.read_interventions(open_table.lake, read_table.name)
    }
    steps_by_key: dict[Key, list[RowStep]] = {}
    for position, row_key, row in row_entries:
        row_steps = steps_by_key.setdefault(row_key, [])
        row_before = row_steps[-1].row if row_steps else None
        row_after = row_before if row is None else None if row["_tombstone"] else _visible_values(table, row)
        record = records.get((position.tick, position.topic, position.partition, position.offset))
        if record is None and (decision := decisions_by_tick.get(position.tick)) is not None:
            row_steps.append(RowStep(position, KINDS[decision.kind], row_after, reason=decision.reason or None))
            continue
        effect = "late" if row is None else _effect_on_row(row_before, row_after)
        texts = (None, None) if record is None else readable_record(table, record, open_table.lake.schemas.find)
        event_ms = None if row is None else row["_event_time_ms"]
        row_steps.append(RowStep(position, effect, row_after, event_ms, record, *texts))
    return {row_key: tuple(key_steps) for row_key, key_steps in steps_by_key.items()}


def _late_positions(open_table: OpenTable, key: str, sought_key: SoughtKey, tick: int) -> list[tuple[Position, Key]]:
    """Return the late records of a key; the order times of their positions come from bronze."""
    table = open_table.table
    from lakehouse.spark.changelog import published
    from lakehouse.spark.table import late

    if not is_table(open_table.late):
        return []
    late_rows = [r for r in published.rows_of_frame(late.select_late(open_table, key, None, None)) if r["tick"] <= tick]
    records_by_place = _records_at_places(
        open_table.layout, table, {(r["tick"], r["topic"], r["partition"], r["offset"]) for r in late_rows}
    )
    late_positions = []
    for row in late_rows:
        if row["join_name"] is not None and table.windows:
            continue  # the window in which it would have counted is not known here; `look late` has it
        record = records_by_place[row["tick"], row["topic"], row["partition"], row["offset"]]
        window_values = [row[name] for name in table.windows]
        late_positions.append(
            (record.position._replace(ordinals=tuple(row["ordinals"])), (*sought_key.values, *window_values))
        )
    return late_positions


def _records_at_places(layout: Layout, table: Table, places: set[TickPlace]) -> dict[TickPlace, Record]:
    """Return the records of bronze at these places."""
    import pyarrow.dataset as ds

    own_topics = table.stream.own_topics
    records_by_place: dict[TickPlace, Record] = {}
    for topic in {topic for _, topic, _, _ in places} & set(table.stream.topics):
        topic_places = [place for place in places if place[1] == topic]
        dataset = reader.open_dataset(layout.topic_records(topic, own_topics))
        predicate = (ds.field("topic") == topic) & ds.field("tick").isin(sorted({place[0] for place in topic_places}))
        predicate &= ds.field("offset").isin(sorted({place[3] for place in topic_places}))
        for row in dataset.to_table(columns=list(COLUMNS), filter=predicate).to_pylist():
            records_by_place[row["tick"], topic, row["partition"], row["offset"]] = record_of(row)
    return records_by_place


def _row_key(table: Table, row: dict[str, Any]) -> Key:
    return key_of(table.key, {name.lower(): value for name, value in row.items()})


def _visible_values(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in table.key and not name.startswith("_")}


def _effect_on_row(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    if after is None:
        return "unchanged" if before is None else "deleted"
    return "inserted" if before is None else "unchanged" if hashable_form(before) == hashable_form(after) else "updated"
