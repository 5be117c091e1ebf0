"""A table at a moment, and what differs between two moments: the first rows, by key."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import duckdb

from lakehouse.delta import reader
from lakehouse.delta.difference import difference, key_text
from lakehouse.delta.rows_at import Snapshot, snapshot
from lakehouse.delta.sql import engine, literal, quote, visible
from lakehouse.errors import ConfigError, StorageError, TimedOut
from lakehouse.page.applications import Application, TableOf
from lakehouse.page.cells import KEY_MAX, ROWS_MAX, cell, cells, checked_key, cut
from lakehouse.semantics.moment import At, parsed

if TYPE_CHECKING:
    from lakehouse.delta.sql import Rows

COMPARED_MAX = 2_000_000
READ_SECONDS = 20.0


def moment(text: str) -> At | None:
    """Return the moment that a text means, None for now; ConfigError for one that means none, or is far too long."""
    if len(text) > KEY_MAX:
        raise ConfigError(f"moment: found {len(text):,} characters; expected a moment such as tick:7, 12, or now.")
    return parsed(text)


def rows(app: Application, table: TableOf, at: str, prefix: str | None, limit: int) -> dict[str, Any]:
    """Return the first rows of a table at a moment, in the order of their keys.

    prefix: only those whose key's text begins so. Each row comes with its key's text, by which `explain` knows it.
    Raises NotFound, ConfigError, StorageError, TimedOut.
    """
    limit, prefix = min(limit, ROWS_MAX), checked_key(prefix)
    found = snapshot(app.layout, table.name, moment(at))
    keys, names = found.history.key, visible(found.rows.schema.names)
    if not keys:
        raise StorageError(f"{found.history.what} does not say its key; expected a table that lakehouse made.")
    key = key_text(found.rows, keys)
    where = f"WHERE starts_with({key}, {literal(prefix)})" if prefix else ""
    order = ", ".join(map(quote, keys))
    shown = ", ".join(map(quote, names))
    got = _read(found.rows, f"SELECT {shown}, {key} AS _key FROM rows {where} ORDER BY {order} LIMIT {limit + 1}")
    return {
        **_side(found),
        "columns": [{"name": name, "type": str(found.rows.schema.field(name).type)} for name in names],
        "key": list(keys),
        "rows": [[cell(row[name]) for name in names] for row in got[:limit]],
        "keys": [row["_key"] for row in got[:limit]],
        "more": len(got) > limit,
    }


def compared(app: Application, table: TableOf, a: str, b: str, key: str | None, limit: int) -> dict[str, Any]:
    """Return what differs between two moments: counts, and the first changes, in the order of their keys.

    Raises as `rows` does, and ConfigError for tables that are too large to be compared while somebody waits.
    """
    limit, key = min(limit, ROWS_MAX), checked_key(key)
    moments = moment(a), moment(b)
    sides = [_side(snapshot(app.layout, table.name, at)) for at in moments]
    if (most := max(side["total"] for side in sides)) > COMPARED_MAX:
        raise ConfigError(
            f"table {table.name!r} has {most:,} rows; expected {COMPARED_MAX:,} at the most here. "
            f"`lakehouse diff {table.name} A B` compares tables of any size."
        )
    found = difference(app.layout, table.name, *moments, key=key, limit=limit)
    changes = [
        {
            "change": one["change"],
            "key": cells(one["key"]),
            "before": cells(one["before"]),
            "after": cells(one["after"]),
        }
        for one in found.changes
    ]
    return {
        "from": sides[0], "to": sides[1],
        "added": found.added, "removed": found.removed, "changed": found.changed, "changes": changes,
    }  # fmt: skip


def _side(found: Snapshot) -> dict[str, Any]:
    history = found.history
    total = reader.count_rows(reader.open_table(history.path, history.what, found.version))
    return {"version": found.version, "total": total}


def _read(rows: Rows, sql: str) -> list[dict[str, Any]]:
    connection = engine()
    connection.register("rows", rows)
    clock = threading.Timer(READ_SECONDS, connection.interrupt)
    clock.start()
    try:
        found = connection.sql(sql).to_arrow_table()
    except duckdb.InterruptException as error:
        raise TimedOut(
            f"the rows were not read within {READ_SECONDS:.0f} s; `lakehouse query` takes the time that it needs."
        ) from error
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"the rows can't be read: {cut(str(error))}") from error
    finally:
        clock.cancel()
        connection.close()
    return list(found.to_pylist(maps_as_pydicts="strict"))
