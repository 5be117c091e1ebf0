"""Find the record that last set a row of a keyed table: bronze's record at the row's position."""

from __future__ import annotations

from typing import Any

import duckdb

from lakehouse.errors import ConfigError, StorageError
from lakehouse.lake import reader
from lakehouse.lake.key_sql import key_condition_sql
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.moment.rows_at import Snapshot
from lakehouse.lake.sql import open_duckdb, quote_literal, quote_name, visible_columns

PLACE = ("tick", "topic", "partition", "offset")
RECORD = ("topic", "topic_id", "partition", "offset", "tick", "timestamp", "key", "value")


def blame(table: Snapshot, key: str, *, limit: int | None = None) -> list[dict[str, Any]]:
    """Return a table's rows of a key at a moment, in the order of their keys; a windowed table may have several.

    key: its text, see `lakehouse.formats.key_text`. A row is {"key": {...}, "value": {...}, "position": {...},
    "record": {...} or None}: the record at the position, None if the lake's bronze does not have it (a restored row).
    Raises ConfigError for a table without a key, or a text that is not a key of it.
    """
    key_columns, column_names = table.history.key, table.rows.schema.names
    if not key_columns or "_position" not in column_names:
        raise ConfigError(
            f"blame {table.history.name}: expected a keyed table, such as visits; the others have no rows that change."
        )
    connection = open_duckdb()
    connection.register("rows", table.rows)
    selected_columns = ", ".join(map(quote_name, (*visible_columns(column_names), "_position")))
    key_order = ", ".join(map(quote_name, key_columns))
    limit_clause = "" if limit is None else f" LIMIT {limit}"
    condition = key_condition_sql(table.rows, key_columns, key)
    try:
        arrow_rows = connection.sql(
            f"SELECT {selected_columns} FROM rows WHERE {condition} ORDER BY {key_order}{limit_clause}"
        ).to_arrow_table()
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"{table.history.label}: its rows can't be read: {error}") from error
    rows = arrow_rows.to_pylist(maps_as_pydicts="strict")
    records_by_place = _records_at_positions(
        table.history.layout, [row["_position"] for row in rows if row["_position"] is not None]
    )
    return [
        {
            "key": {n: row[n] for n in key_columns},
            "value": {n: v for n, v in row.items() if n not in key_columns and n != "_position"},
            "position": row["_position"],
            "record": records_by_place.get(_place_of_position(row["_position"] or {})),
        }
        for row in rows
    ]


def _records_at_positions(layout: Layout, positions: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the records at these positions, by place."""
    records_by_place = {}
    for topic in sorted({position["topic"] for position in positions} & set(reader.table_names(layout, "bronze"))):
        topic_positions = [position for position in positions if position["topic"] == topic]
        conditions = [f"topic = {quote_literal(topic)}"]
        # The tick excludes records of an earlier topic of the same name, and limits the read to few files.
        conditions += [
            f"{quote_name(n)} IN ({', '.join({str(int(p[n])) for p in topic_positions})})"
            for n in ("tick", "partition", "offset")
        ]
        bronze_rows = files.read_rows_where(
            reader.find_table_path(layout, "bronze", topic),
            ", ".join(map(quote_name, RECORD)),
            " AND ".join(conditions),
        )
        records_by_place.update({_place_of_position(row): row for row in bronze_rows.to_pylist()})
    return records_by_place


def _place_of_position(position: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(position.get(name) for name in PLACE)
