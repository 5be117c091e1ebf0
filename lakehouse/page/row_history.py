"""A row's history: its change in each version of its table, from the table's change data feed, the newest first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from lakehouse.errors import ConfigError, NotFound, StorageError, TimedOut
from lakehouse.formats.key_text import several
from lakehouse.lake import reader
from lakehouse.lake.bounded import BoundedRead, bounded, current, taken
from lakehouse.lake.intervention_log import logged
from lakehouse.lake.keys import key_condition, without_window
from lakehouse.lake.moment.history import History
from lakehouse.lake.sql import engine, quote, visible
from lakehouse.page.applications import Application, TableOf
from lakehouse.page.cells import ROWS_MAX, cell, cells, checked_key, shortened
from lakehouse.page.limits import fitting, reading
from lakehouse.page.versions import VERSIONS_MAX, decided

if TYPE_CHECKING:
    from lakehouse.lake.bounded import Rows

VERSIONS_A_READ = 64
CHANGES_MAX = 2_000  # rows of the feed; an update is two of them
ENOUGH_SECONDS = 10.0
PREFILTERED = ("string", "string_view", "large_string", "int8", "int16", "int32", "int64")


class _TooMany(Exception):
    """Some versions have more changes of a key than one answer shows; fewer versions may fit."""


def row_history(app: Application, table: TableOf, key: str, before: int | None, limit: int) -> dict[str, Any]:
    """Return the changes of a key's rows; for a windowed table, of the rows of all its windows.

    before: only versions below it. Each change is {"version", "tick", "time_ms", "change": inserted, updated or
    deleted, "key", "before", "after", "decided"}, decided as in `versions`. older: the version below which to go on,
    None at the table's beginning; gone: why older changes can't be read. Raises NotFound, ConfigError, StorageError.
    """
    history = History(app.layout, table.name)
    if not history.key:
        raise StorageError(f"{history.what} does not say what its key is; expected a table of lakehouse.")
    if checked_key(key) is None:
        raise ConfigError(f"key: found none; expected a key's text. {several(without_window(history.key))}")
    if before is not None and before < 0:
        raise ConfigError(f"before: found {before}; expected a version, from 0 on.")
    last = history.newest if before is None else min(before - 1, history.newest)
    with bounded(reading(f"`lakehouse past changes {table.name} --from N --to N` has no such limit.")) as read:
        found, older, gone = _found(app, history, key, last, min(limit, ROWS_MAX), read)
    decisions = list(logged(app.layout, table.name, VERSIONS_MAX))
    known = ("tick", "time_ms", "operation")
    commits = {
        commit["version"]: {**{name: commit[name] for name in known}, "decided": decided(commit, decisions)}
        for commit in _commits(app, table, found)
    }
    return {
        "key": list(without_window(history.key)),
        "columns": visible(reader.dataset(history.path).schema.names),
        "changes": [{**one, **commits.get(one["version"], dict.fromkeys((*known, "decided")))} for one in found],
        "older": older,
        "gone": gone,
    }


def _found(
    app: Application, history: History, key: str, last: int, limit: int, read: BoundedRead
) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """The changes from version `last` back; the version below which to go on; why older ones can't be read."""
    found: list[dict[str, Any]] = []
    versions, enough = VERSIONS_A_READ, time.monotonic() + ENOUGH_SECONDS
    while last >= 0:
        first = max(last - versions + 1, 0)
        try:
            got, problem = _changes(app, history, key, first, last)
        except (_TooMany, TimedOut, duckdb.InterruptException, duckdb.OutOfMemoryException):
            if found:  # the changes so far are an answer; the next answer goes on where this one ends
                return found, last + 1, None
            if first == last or time.monotonic() > read.until:
                raise
            versions = max(1, versions // 8)
            continue
        found, left_out = _whole(found + got)
        if left_out is not None or problem is not None:
            return found, left_out, problem if left_out is None else None
        last = first - 1
        if len(found) >= limit or time.monotonic() > enough:
            return found, first or None, None
    return found, None, None


def _whole(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int | None]:
    """The changes that fit into an answer, by whole versions; and the version below which to go on, if some did not.

    If a single version does not fit, only those of its changes that fit: the rest of it is skipped.
    """
    fits = fitting(found)
    if len(fits) == len(found):
        return found, None
    cut = found[len(fits)]["version"]
    before = [one for one in fits if one["version"] != cut]
    return (before, cut + 1) if before else (fits, cut)


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
    # The feed's reader has its own SQL: it writes texts and whole numbers as DuckDB does, but times differently.
    where = condition if all(kind in PREFILTERED for kind in kinds) else None
    try:
        feed = reader.change_batches(app.layout, history.name, first, last, where)
        return _told(feed, rows, history.key, condition, is_one=first == last), None
    except NotFound as error:
        if first == last:
            return [], str(error)
        middle = (first + last) // 2
        newer, problem = _changes(app, history, key, middle + 1, last)
        if problem is not None:
            return newer, problem
        older, problem = _changes(app, history, key, first, middle)
        return newer + older, problem


def _told(
    feed: Iterator[pa.RecordBatch], rows: Rows, keys: tuple[str, ...], condition: str, *, is_one: bool
) -> list[dict[str, Any]]:
    """The changes of a key in the feed, the newest first. Raises _TooMany for several versions; of one, the first."""
    names, empty = visible(rows.schema.names), next(feed)
    has = set(empty.schema.names)
    kinds = {name: str(rows.schema.field(name).type) for name in names}
    shown = ", ".join(
        f"{shortened(quote(name), kinds[name]) if name in has else 'NULL'} AS {quote(name)}" for name in names
    )
    connection, read, kept = engine(), current(), 0
    for number, batch in enumerate(chain([empty], feed)):
        if read is not None:
            read.check()
        connection.register("arrow", pa.Table.from_batches([batch]))
        # By way of a table: its texts have a type without filters.
        connection.execute("CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM arrow")
        into = "CREATE TEMP TABLE feed AS" if number == 0 else "INSERT INTO feed"
        connection.execute(f"{into} SELECT {shown}, _change_type, _commit_version FROM part WHERE {condition}")
        kept = int(connection.execute("SELECT count(*) FROM feed").fetchall()[0][0])
        if kept > CHANGES_MAX and not is_one:
            raise _TooMany
    if not kept:
        return []
    order = ", ".join(("_commit_version DESC", *map(quote, keys)))
    got = connection.sql(f"SELECT * FROM feed ORDER BY {order} LIMIT {CHANGES_MAX}")
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in taken(got):
        kind, version = row.pop("_change_type"), row.pop("_commit_version")
        of = {name: row.pop(name) for name in keys}
        place = (version, *(repr(part) for part in of.values()))
        one = found.setdefault(place, {"version": version, "key": cells(of), "before": None, "after": None})
        one["before" if kind in ("update_preimage", "delete") else "after"] = {n: cell(v) for n, v in row.items()}
    for one in found.values():
        one["change"] = "inserted" if one["before"] is None else "deleted" if one["after"] is None else "updated"
    return list(found.values())
