"""A row's history: what each version of its table made of it, by the table's change data feed, the newest first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.delta import reader
from lakehouse.delta.difference import key_condition, without_window
from lakehouse.delta.history import History
from lakehouse.delta.sql import engine, quote, visible
from lakehouse.errors import ConfigError, NotFound, StorageError
from lakehouse.page.applications import Application, TableOf
from lakehouse.page.cells import ROWS_MAX, cell, cells, checked_key

if TYPE_CHECKING:
    from lakehouse.delta.sql import Rows

VERSIONS_A_READ = 64
READ_SECONDS = 10.0
PREFILTERED = ("string", "string_view", "large_string", "int8", "int16", "int32", "int64")


def row_history(app: Application, table: TableOf, key: str, before: int | None, limit: int) -> dict[str, Any]:
    """Return what happened to the rows of a key; of a windowed table to those of all its windows.

    before: only versions below it. Each change is {"version", "tick", "time_ms", "change": inserted, updated or
    deleted, "key", "before", "after"}. older: the version below which to go on, None at the table's beginning; gone:
    why older changes can't be read. Raises NotFound, ConfigError, StorageError.
    """
    history = History(app.layout, table.name)
    if not history.key:
        raise StorageError(f"{history.what} does not say its key; expected a table that lakehouse made.")
    if checked_key(key) is None:
        raise ConfigError("key: found none; expected a key's text, commas between the columns of a key of several.")
    if before is not None and before < 0:
        raise ConfigError(f"before: found {before}; expected a version, from 0 on.")
    found: list[dict[str, Any]] = []
    last = history.newest if before is None else min(before - 1, history.newest)
    older: int | None = None
    gone, until = None, time.monotonic() + READ_SECONDS
    while last >= 0:
        first = max(last - VERSIONS_A_READ + 1, 0)
        got, problem = _changes(app, history, key, first, last)
        found += got
        if problem is not None:
            gone = problem
            break
        last = first - 1
        if len(found) >= min(limit, ROWS_MAX) or time.monotonic() > until:
            older = first if first else None
            break
    commits = {commit["version"]: commit for commit in _commits(app, table, found)}
    return {
        "key": list(without_window(history.key)),
        "columns": visible(reader.dataset(history.path).schema.names),
        "changes": [
            {**one, **{n: commits.get(one["version"], {}).get(n) for n in ("tick", "time_ms", "operation")}}
            for one in found
        ],
        "older": older,
        "gone": gone,
    }


def _commits(app: Application, table: TableOf, found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if not found:
        return
    oldest = min(one["version"] for one in found)
    for commit in reader.versions(app.layout, table.name):
        if commit["version"] < oldest:
            return
        yield commit


def _changes(
    app: Application, history: History, key: str, first: int, last: int
) -> tuple[list[dict[str, Any]], str | None]:
    """The changes of versions first to last, the newest first; and why not all of them could be read."""
    rows = reader.dataset(history.path)
    condition = key_condition(rows, history.key, key)
    kinds = [str(rows.schema.field(name).type) for name in without_window(history.key)]
    # The feed's reader has SQL of its own: it writes texts and whole numbers as DuckDB does, and times otherwise.
    where = condition if all(kind in PREFILTERED for kind in kinds) else None
    try:
        feed = reader.changes(app.layout, history.name, first, last, where)
    except NotFound as error:
        if first == last:
            return [], str(error)
        middle = (first + last) // 2
        newer, problem = _changes(app, history, key, middle + 1, last)
        if problem is not None:
            return newer, problem
        older, problem = _changes(app, history, key, first, middle)
        return newer + older, problem
    return _told(feed, rows, history.key, condition), None


def _told(feed: pa.Table, rows: Rows, keys: tuple[str, ...], condition: str) -> list[dict[str, Any]]:
    names = visible(rows.schema.names)
    has = set(feed.schema.names)
    shown = ", ".join(quote(name) if name in has else f"NULL AS {quote(name)}" for name in names)
    connection = engine()
    connection.register("arrow", feed)
    connection.execute("CREATE TEMP TABLE feed AS SELECT * FROM arrow")  # its texts are of a type that has no filters
    order = ", ".join(("_commit_version DESC", *map(quote, keys)))
    got = connection.sql(
        f"SELECT {shown}, _change_type, _commit_version FROM feed WHERE {condition} ORDER BY {order}"
    ).to_arrow_table()
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in got.to_pylist(maps_as_pydicts="strict"):
        kind, version = row.pop("_change_type"), row.pop("_commit_version")
        of = {name: row.pop(name) for name in keys}
        place = (version, *(repr(part) for part in of.values()))
        one = found.setdefault(place, {"version": version, "key": cells(of), "before": None, "after": None})
        one["before" if kind in ("update_preimage", "delete") else "after"] = {n: cell(v) for n, v in row.items()}
    for one in found.values():
        one["change"] = "inserted" if one["before"] is None else "deleted" if one["after"] is None else "updated"
    return list(found.values())
