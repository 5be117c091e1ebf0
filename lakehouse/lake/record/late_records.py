"""Late records that a correction took in, without Spark: they are no longer late, unless it was reverted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from lakehouse.lake import intervention_log, reader
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.layout import Layout
from lakehouse.lake.sql import open_duckdb
from lakehouse.lake.store import is_table
from lakehouse.semantics.commit_number import EVER

PLACE = ("tick", "topic", "partition", "offset", "ordinals")
SCHEMA = pa.schema(
    {
        "tick": pa.int64(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "ordinals": pa.list_(pa.int64()),
    }
)  # fmt: skip


def count_late_records(layout: Layout, tables: Iterable[str]) -> dict[str, int]:
    """Return the number of late records by table, without those that a correction took in; 0 if there are none."""
    late_counts = reader.count_late_rows(layout, tables)
    correction_ids = _correction_ids(layout) if any(late_counts.values()) else {}
    return {
        name: late_count - _count_taken_in(layout, name, correction_ids) if late_count else 0
        for name, late_count in late_counts.items()
    }


def late_places_taken_in(layout: Layout, table: str) -> pa.Table:
    """Return the places of a table's late records that corrections in effect took in, each once."""
    return _intervention_places(layout, _correction_ids(layout).get(table, []))


def _count_taken_in(layout: Layout, table: str, correction_ids: Mapping[str, list[str]]) -> int:
    """Return the number of rows of a late table that corrections took in."""
    if table not in correction_ids:
        return 0
    connection = open_duckdb()
    connection.register("late", reader.open_dataset(layout.late(table)))
    connection.register("taken_in", _intervention_places(layout, correction_ids[table]))
    count_row = connection.execute(
        f"SELECT count(*) FROM late SEMI JOIN taken_in USING ({place_columns_sql()})"
    ).fetchone()
    assert count_row is not None
    return int(count_row[0])


def place_columns_sql() -> str:
    """Return the columns of a record's place as SQL."""
    return ", ".join(f'"{name}"' for name in PLACE)


def _correction_ids(layout: Layout) -> dict[str, list[str]]:
    """Return the ids of the corrections in effect, by table."""
    interventions = intervention_log.interventions_by_table(layout)
    ids_by_table = {
        table: [
            intervention.id
            for intervention in interventions_in_effect(table_interventions, EVER)
            if intervention.kind == "late"
        ]
        for table, table_interventions in interventions.items()
    }
    return {table: correction_ids for table, correction_ids in ids_by_table.items() if correction_ids}


def _intervention_places(layout: Layout, intervention_ids: list[str]) -> pa.Table:
    if not intervention_ids or not is_table(layout.intervention_records):
        return SCHEMA.empty_table()
    import pyarrow.dataset as ds

    records = reader.open_dataset(layout.intervention_records)
    places = records.to_table(columns=list(PLACE), filter=ds.field("id").isin(intervention_ids)).to_pylist()
    distinct_places = {
        tuple(tuple(value) if name == "ordinals" else value for name, value in row.items()) for row in places
    }
    return pa.Table.from_pylist([dict(zip(PLACE, place, strict=True)) for place in sorted(distinct_places)], SCHEMA)
