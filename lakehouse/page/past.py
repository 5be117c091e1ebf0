"""A table at a moment, and the differences between two moments: the first rows, by key."""

from __future__ import annotations

from typing import Any

import duckdb

from lakehouse.errors import ConfigError, StorageError
from lakehouse.lake import reader
from lakehouse.lake.key_sql import key_text_sql
from lakehouse.lake.moment.rows_at import Snapshot, snapshot
from lakehouse.lake.read_bounds import BoundedRead, bound_reads, fetch_rows, scan_rows
from lakehouse.lake.row.difference import difference
from lakehouse.lake.sql import open_duckdb, quote_literal, quote_name, visible_columns
from lakehouse.page.applications import Application, TableInfo
from lakehouse.page.cells import (
    KEY_MAX,
    ROWS_MAX,
    cells_of_row,
    check_key,
    cut_text,
    is_text,
    json_cell,
    shorten_in_sql,
)
from lakehouse.page.limits import fitting_items, read_bounds
from lakehouse.semantics.moment import At
from lakehouse.semantics.time.named_moment import moment_from_text

COMPARED_MAX = 2_000_000


def parse_moment(text: str) -> At | None:
    """Return the moment that a text means, None for now. Raises ConfigError for an invalid, or far too long, text."""
    if len(text) > KEY_MAX:
        raise ConfigError(f"moment: found {len(text):,} characters; expected a moment such as tick:7, 12, or now.")
    return moment_from_text(text)


def rows_at_moment(app: Application, table: TableInfo, at: str, prefix: str | None, limit: int) -> dict[str, Any]:
    """Return the first rows of a table at a moment, in the order of their keys.

    prefix: only rows whose key's text begins with it. Each row comes with its key's text, as `explain` takes it.
    Raises NotFound, ConfigError, StorageError, TimedOut.
    """
    with bound_reads(read_bounds("`lakehouse query` has no such limit.")) as bounded_read:
        return _select_rows(app, table, parse_moment(at), check_key(prefix), min(limit, ROWS_MAX), bounded_read)


def _select_rows(
    app: Application, table: TableInfo, moment: At | None, key_prefix: str | None, limit: int, bounded_read: BoundedRead
) -> dict[str, Any]:
    table_snapshot = snapshot(app.layout, table.name, moment)
    key_columns, visible_names = table_snapshot.history.key, visible_columns(table_snapshot.rows.schema.names)
    if not key_columns:
        raise StorageError(
            f"{table_snapshot.history.label} does not say what its key is; expected a table of lakehouse."
        )
    key_sql = key_text_sql(table_snapshot.rows, key_columns)
    where_clause = f"WHERE starts_with({key_sql}, {quote_literal(key_prefix)})" if key_prefix else ""
    types_by_name = {column.name: str(column.type) for column in table_snapshot.rows.schema}
    # Sort by the beginnings of long keys: whole megabytes would take all the memory.
    order_terms = ", ".join(
        f"left({quote_name(column)}, {KEY_MAX})" if is_text(types_by_name[column]) else quote_name(column)
        for column in key_columns
    )
    shown_columns = ", ".join(
        f"{shorten_in_sql(quote_name(name), types_by_name[name])} AS {quote_name(f'${n}')}"
        for n, name in enumerate(visible_names)
    )
    # A key that is too long for a request counts as none.
    key_sql = f"CASE WHEN length({key_sql}) <= {KEY_MAX} THEN {key_sql} END"
    connection = open_duckdb()
    connection.register("rows", scan_rows(table_snapshot.rows, list(dict.fromkeys([*visible_names, *key_columns]))))
    try:
        read_rows = fetch_rows(
            connection.sql(
                f"SELECT {shown_columns}, {key_sql} AS _key FROM rows {where_clause} ORDER BY {order_terms} LIMIT "
                f"{limit + 1}"
            )
        )
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"the rows can't be read: {cut_text(str(error))}") from error
    fitting_rows = fitting_items(
        [json_cell(row[f"${n}"]) for n in range(len(visible_names))] for row in read_rows[:limit]
    )
    return {
        **_describe_snapshot(table_snapshot),
        "columns": [{"name": name, "type": types_by_name[name]} for name in visible_names],
        "key": list(key_columns),
        "rows": fitting_rows,
        "keys": [row["_key"] for row in read_rows[: len(fitting_rows)]],
        "more": len(read_rows) > len(fitting_rows) or bounded_read.is_cut,
    }


def compare_moments(app: Application, table: TableInfo, a: str, b: str, key: str | None, limit: int) -> dict[str, Any]:
    """Return the differences between two moments: counts, and the first changes, in the order of their keys.

    Raises the errors of `rows`, and ConfigError for tables that are too large to compare while somebody waits.
    """
    moments, key, limit = (parse_moment(a), parse_moment(b)), check_key(key), min(limit, ROWS_MAX)
    with bound_reads(read_bounds(f"`lakehouse past diff {table.name} A B` has no such limit.")):
        return _difference_answer(app, table, moments, key, limit)


def _difference_answer(
    app: Application, table: TableInfo, moments: tuple[At | None, At | None], key: str | None, limit: int
) -> dict[str, Any]:
    old_snapshot, new_snapshot = (snapshot(app.layout, table.name, moment) for moment in moments)
    sides = [_describe_snapshot(old_snapshot), _describe_snapshot(new_snapshot)]
    if (most_rows := max(side["total"] for side in sides)) > COMPARED_MAX:
        raise ConfigError(
            f"table {table.name!r} has {most_rows:,} rows; expected at most {COMPARED_MAX:,} here. "
            f"`lakehouse past diff {table.name} A B` compares tables of any size."
        )
    row_difference = difference(old_snapshot, new_snapshot, key=key, limit=limit)
    changes = fitting_items(
        {
            "change": change["change"],
            "key": cells_of_row(change["key"]),
            "before": cells_of_row(change["before"]),
            "after": cells_of_row(change["after"]),
        }
        for change in row_difference.changes
    )
    return {
        "from": sides[0],
        "to": sides[1],
        "added": row_difference.added,
        "removed": row_difference.removed,
        "changed": row_difference.changed,
        "changes": changes,
    }


def _describe_snapshot(table_snapshot: Snapshot) -> dict[str, Any]:
    history = table_snapshot.history
    row_total = reader.count_rows(reader.open_table(history.path, history.label, table_snapshot.version))
    return {"version": table_snapshot.version, "total": row_total}
