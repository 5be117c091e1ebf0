"""The record that last set a row of a keyed table: the row's position, and the record that bronze has there."""

from __future__ import annotations

from typing import Any

import duckdb

from lakehouse.errors import ConfigError, StorageError
from lakehouse.lake import reader
from lakehouse.lake.keys import key_condition
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.moment.rows_at import Snapshot
from lakehouse.lake.sql import engine, literal, quote, visible

PLACE = ("tick", "topic", "partition", "offset")
RECORD = ("topic", "topic_id", "partition", "offset", "tick", "timestamp", "key", "value")


def blame(table: Snapshot, key: str, *, limit: int | None = None) -> list[dict[str, Any]]:
    """Return a table's rows of a key at a moment, in the order of their keys; a windowed table may have several.

    key: its text, see `lakehouse.formats.key_text`. A row is {"key": {...}, "value": {...}, "position": {...},
    "record": {...} or None}: the record at the position, None if the lake's bronze does not have it (a restored row).
    Raises ConfigError for a table without a key, or a text that is not a key of it.
    """
    keys, columns = table.history.key, table.rows.schema.names
    if not keys or "_position" not in columns:
        raise ConfigError(
            f"blame {table.history.name}: expected a keyed table, such as visits; the others have no rows that change."
        )
    connection = engine()
    connection.register("rows", table.rows)
    shown = ", ".join(map(quote, (*visible(columns), "_position")))
    order = ", ".join(map(quote, keys))
    cut = "" if limit is None else f" LIMIT {limit}"
    where = key_condition(table.rows, keys, key)
    try:
        found = connection.sql(f"SELECT {shown} FROM rows WHERE {where} ORDER BY {order}{cut}").to_arrow_table()
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"{table.history.what}: its rows can't be read: {error}") from error
    rows = found.to_pylist(maps_as_pydicts="strict")
    records = _records(table.history.layout, [row["_position"] for row in rows if row["_position"] is not None])
    return [
        {
            "key": {n: row[n] for n in keys},
            "value": {n: v for n, v in row.items() if n not in keys and n != "_position"},
            "position": row["_position"],
            "record": records.get(_place(row["_position"] or {})),
        }
        for row in rows
    ]


def _records(layout: Layout, positions: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The records at these positions, by place."""
    found = {}
    for topic in sorted({position["topic"] for position in positions} & set(reader.names(layout, "bronze"))):
        places = [position for position in positions if position["topic"] == topic]
        where = [f"topic = {literal(topic)}"]
        # The tick tells a topic's records from those of an earlier topic of its name, and lets few files be read.
        where += [
            f"{quote(n)} IN ({', '.join({str(int(p[n])) for p in places})})" for n in ("tick", "partition", "offset")
        ]
        rows = files.rows(reader.path_of(layout, "bronze", topic), ", ".join(map(quote, RECORD)), " AND ".join(where))
        found.update({_place(row): row for row in rows.to_pylist()})
    return found


def _place(position: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(position.get(name) for name in PLACE)
