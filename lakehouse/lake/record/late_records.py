"""Late records that a correction took in after all, without Spark: they are not late, unless it was reverted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from lakehouse.lake import intervention_log, reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.in_effect import in_effect
from lakehouse.lake.layout import Layout
from lakehouse.lake.sql import engine
from lakehouse.semantics.epoch import EVER

PLACE = ("tick", "topic", "partition", "offset", "ordinals")
SCHEMA = pa.schema(
    {
        "tick": pa.int64(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "ordinals": pa.list_(pa.int64()),
    }
)  # fmt: skip


def counts(layout: Layout, tables: Iterable[str]) -> dict[str, int]:
    """Return the number of late records by table, without those that a correction took in; 0 if there are none."""
    rows = reader.late_rows(layout, tables)
    corrected = _corrections(layout) if any(rows.values()) else {}
    return {name: number - _taken_in(layout, name, corrected) if number else 0 for name, number in rows.items()}


def taken_in(layout: Layout, table: str) -> pa.Table:
    """Return the places of a table's late records that corrections in effect took in, each once."""
    return _places(layout, _corrections(layout).get(table, []))


def _taken_in(layout: Layout, table: str, corrected: Mapping[str, list[str]]) -> int:
    """The number of rows of a late table that corrections took in."""
    if table not in corrected:
        return 0
    connection = engine()
    connection.register("late", reader.dataset(layout.late(table)))
    connection.register("taken_in", _places(layout, corrected[table]))
    found = connection.execute(f"SELECT count(*) FROM late SEMI JOIN taken_in USING ({columns()})").fetchone()
    assert found is not None
    return int(found[0])


def columns() -> str:
    """Return the columns of a record's place, as SQL."""
    return ", ".join(f'"{name}"' for name in PLACE)


def _corrections(layout: Layout) -> dict[str, list[str]]:
    """The ids of the corrections in effect, by table."""
    decisions = intervention_log.by_table(layout)
    ids = {table: [one.id for one in in_effect(of, EVER) if one.kind == "late"] for table, of in decisions.items()}
    return {table: found for table, found in ids.items() if found}


def _places(layout: Layout, ids: list[str]) -> pa.Table:
    if not ids or not is_table(layout.intervention_records):
        return SCHEMA.empty_table()
    import pyarrow.dataset as ds

    rows = reader.dataset(layout.intervention_records)
    places = rows.to_table(columns=list(PLACE), filter=ds.field("id").isin(ids)).to_pylist()
    different = {tuple(tuple(value) if name == "ordinals" else value for name, value in row.items()) for row in places}
    return pa.Table.from_pylist([dict(zip(PLACE, place, strict=True)) for place in sorted(different)], SCHEMA)
