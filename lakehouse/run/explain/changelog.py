"""The steps of a key that the model can't tell: from Spark's changelog per event, with the records from bronze.

Records that changed nothing (superseded, left out by HAVING, suppressed) are not in a changelog, so they are not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.lake import reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.layout import Layout
from lakehouse.lake.properties import SKIP
from lakehouse.model.event import key_of
from lakehouse.plan.table import Table
from lakehouse.run.explain.explanation import RowStep, written
from lakehouse.run.explain.of_key import COLUMNS, Sought, record_of
from lakehouse.semantics.aggregate.collection import frozen
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
    decided = reader.dataset(layout.interventions)
    return bool(decided.count_rows(filter=ds.field("table") == table.name))


def steps(opened: OpenTable, key: str, wanted: Sought, tick: int) -> dict[Key, tuple[RowStep, ...]]:
    """Return the steps of a key's rows up to a tick, in order. key: its text, and what it means."""
    table = opened.table
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.changelog import changefeed, published

    changes = published.rows(changefeed.of_key(changefeed.per_event(opened, 0, tick), table, key))
    found: list[tuple[Position, Key, dict[str, Any] | None]] = []
    found += [(Position.of(row["_position"]), _key(table, row), row) for row in changes]
    found += [(place, of, None) for place, of in _late(opened, key, wanted, tick)]
    found.sort(key=lambda item: item[0])
    places = {(of.tick, of.topic, of.partition, of.offset) for of, _, _ in found}
    records = _records(opened.layout, table, places)
    # An intervention in an upstream table reaches this one as changes of its rows.
    decided = {at.at: at for of in (*table.stream.tables, table) for at in interventions.of(opened.lake, of.name)}
    made: dict[Key, list[RowStep]] = {}
    for position, of, row in found:
        before = of_row[-1].row if (of_row := made.setdefault(of, [])) else None
        after = before if row is None else None if row["_tombstone"] else _values(table, row)
        record = records.get((position.tick, position.topic, position.partition, position.offset))
        if record is None and (decision := decided.get(position.tick)) is not None:
            of_row.append(RowStep(position, KINDS[decision.kind], after, reason=decision.reason or None))
            continue
        did = "late" if row is None else _did(before, after)
        texts = (None, None) if record is None else written(table, record)
        event_ms = None if row is None else row["_event_time_ms"]
        of_row.append(RowStep(position, did, after, event_ms, record, *texts))
    return {of: tuple(happened) for of, happened in made.items()}


def _late(opened: OpenTable, key: str, wanted: Sought, tick: int) -> list[tuple[Position, Key]]:
    """The late records of a key; the order times of their positions come from bronze."""
    table = opened.table
    from lakehouse.spark.changelog import published
    from lakehouse.spark.table import late

    if not is_table(opened.late):
        return []
    rows = [r for r in published.rows(late.chosen(opened, key, None, None)) if r["tick"] <= tick]
    records = _records(opened.layout, table, {(r["tick"], r["topic"], r["partition"], r["offset"]) for r in rows})
    found = []
    for row in rows:
        if row["join_name"] is not None and table.windows:
            continue  # in which window it would have counted is not known; `look late` has it
        record = records[row["tick"], row["topic"], row["partition"], row["offset"]]
        window = [row[name] for name in table.windows]
        found.append((record.position._replace(ordinals=tuple(row["ordinals"])), (*wanted.values, *window)))
    return found


def _records(layout: Layout, table: Table, places: set[TickPlace]) -> dict[TickPlace, Record]:
    """The records of bronze at these places."""
    import pyarrow.dataset as ds

    own = {source.topic for source in table.stream.sources if source.own_table}
    found: dict[TickPlace, Record] = {}
    for topic in {topic for _, topic, _, _ in places} & set(table.stream.topics):
        here = [place for place in places if place[1] == topic]
        rows = reader.dataset(layout.own_records(topic) if topic in own else layout.records)
        wanted = (ds.field("topic") == topic) & ds.field("tick").isin(sorted({place[0] for place in here}))
        wanted &= ds.field("offset").isin(sorted({place[3] for place in here}))
        for row in rows.to_table(columns=list(COLUMNS), filter=wanted).to_pylist():
            found[row["tick"], topic, row["partition"], row["offset"]] = record_of(row)
    return found


def _key(table: Table, row: dict[str, Any]) -> Key:
    return key_of(table.key, {name.lower(): value for name, value in row.items()})


def _values(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in table.key and not name.startswith("_")}


def _did(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    if after is None:
        return "unchanged" if before is None else "deleted"
    return "inserted" if before is None else "unchanged" if frozen(before) == frozen(after) else "updated"
