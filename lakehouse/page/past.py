"""A table at a moment, and the differences between two moments: the first rows, by key."""

from __future__ import annotations

from typing import Any

import duckdb

from lakehouse.errors import ConfigError, StorageError
from lakehouse.lake import reader
from lakehouse.lake.bounded import BoundedRead, bounded, scanned, taken
from lakehouse.lake.keys import key_text
from lakehouse.lake.moment.rows_at import Snapshot, snapshot
from lakehouse.lake.row.difference import difference
from lakehouse.lake.sql import engine, literal, quote, visible
from lakehouse.page.applications import Application, TableOf
from lakehouse.page.cells import KEY_MAX, ROWS_MAX, cell, cells, checked_key, cut, is_text, shortened
from lakehouse.page.limits import fitting, reading
from lakehouse.semantics.moment import At, parsed

COMPARED_MAX = 2_000_000


def moment(text: str) -> At | None:
    """Return the moment that a text means, None for now; ConfigError for an invalid text, or a far too long one."""
    if len(text) > KEY_MAX:
        raise ConfigError(f"moment: found {len(text):,} characters; expected a moment such as tick:7, 12, or now.")
    return parsed(text)


def rows(app: Application, table: TableOf, at: str, prefix: str | None, limit: int) -> dict[str, Any]:
    """Return the first rows of a table at a moment, in the order of their keys.

    prefix: only those whose key's text begins with it. Each row comes with its key's text, as `explain` takes it.
    Raises NotFound, ConfigError, StorageError, TimedOut.
    """
    with bounded(reading("`lakehouse query` has no such limit.")) as read:
        return _rows(app, table, moment(at), checked_key(prefix), min(limit, ROWS_MAX), read)


def _rows(
    app: Application, table: TableOf, at: At | None, prefix: str | None, limit: int, read: BoundedRead
) -> dict[str, Any]:
    found = snapshot(app.layout, table.name, at)
    keys, names = found.history.key, visible(found.rows.schema.names)
    if not keys:
        raise StorageError(f"{found.history.what} does not say what its key is; expected a table of lakehouse.")
    key = key_text(found.rows, keys)
    where = f"WHERE starts_with({key}, {literal(prefix)})" if prefix else ""
    kinds = {one.name: str(one.type) for one in found.rows.schema}
    # By the beginnings of long keys: sorting whole megabytes would take all the memory.
    order = ", ".join(f"left({quote(one)}, {KEY_MAX})" if is_text(kinds[one]) else quote(one) for one in keys)
    shown = ", ".join(f"{shortened(quote(name), kinds[name])} AS {quote(f'${n}')}" for n, name in enumerate(names))
    # A key that is too long for a request counts as none.
    key = f"CASE WHEN length({key}) <= {KEY_MAX} THEN {key} END"
    connection = engine()
    connection.register("rows", scanned(found.rows, list(dict.fromkeys([*names, *keys]))))
    try:
        got = taken(
            connection.sql(f"SELECT {shown}, {key} AS _key FROM rows {where} ORDER BY {order} LIMIT {limit + 1}")
        )
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"the rows can't be read: {cut(str(error))}") from error
    said = fitting([cell(row[f"${n}"]) for n in range(len(names))] for row in got[:limit])
    return {
        **_side(found),
        "columns": [{"name": name, "type": kinds[name]} for name in names],
        "key": list(keys),
        "rows": said,
        "keys": [row["_key"] for row in got[: len(said)]],
        "more": len(got) > len(said) or read.is_cut,
    }


def compared(app: Application, table: TableOf, a: str, b: str, key: str | None, limit: int) -> dict[str, Any]:
    """Return the differences between two moments: counts, and the first changes, in the order of their keys.

    Raises as `rows` does, and ConfigError for tables that are too large to compare while somebody waits.
    """
    moments, key, limit = (moment(a), moment(b)), checked_key(key), min(limit, ROWS_MAX)
    with bounded(reading(f"`lakehouse past diff {table.name} A B` has no such limit.")):
        return _compared(app, table, moments, key, limit)


def _compared(
    app: Application, table: TableOf, moments: tuple[At | None, At | None], key: str | None, limit: int
) -> dict[str, Any]:
    before, after = (snapshot(app.layout, table.name, at) for at in moments)
    sides = [_side(before), _side(after)]
    if (most := max(side["total"] for side in sides)) > COMPARED_MAX:
        raise ConfigError(
            f"table {table.name!r} has {most:,} rows; expected at most {COMPARED_MAX:,} here. "
            f"`lakehouse past diff {table.name} A B` compares tables of any size."
        )
    found = difference(before, after, key=key, limit=limit)
    changes = fitting(
        {
            "change": one["change"],
            "key": cells(one["key"]),
            "before": cells(one["before"]),
            "after": cells(one["after"]),
        }
        for one in found.changes
    )
    return {
        "from": sides[0], "to": sides[1],
        "added": found.added, "removed": found.removed, "changed": found.changed, "changes": changes,
    }  # fmt: skip


def _side(found: Snapshot) -> dict[str, Any]:
    history = found.history
    total = reader.count_rows(reader.open_table(history.path, history.what, found.version))
    return {"version": found.version, "total": total}
