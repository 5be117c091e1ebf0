"""A row's history: its change in each version of its table, from the table's change data feed, the newest first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from lakehouse.errors import ConfigError, NotFound, StorageError, TimedOut
from lakehouse.formats.key_text import several_columns_sentence
from lakehouse.lake import reader
from lakehouse.lake.intervention_log import read_interventions
from lakehouse.lake.key_sql import drop_window_columns, key_condition_sql
from lakehouse.lake.moment.history import History
from lakehouse.lake.read_bounds import BoundedRead, bound_reads, current_read, fetch_rows
from lakehouse.lake.sql import open_duckdb, quote_name, visible_columns
from lakehouse.page.applications import Application, TableInfo
from lakehouse.page.cells import ROWS_MAX, cells_of_row, check_key, json_cell, shorten_in_sql
from lakehouse.page.limits import fitting_items, read_bounds
from lakehouse.page.versions import VERSIONS_MAX, newest_intervention

if TYPE_CHECKING:
    from lakehouse.lake.read_bounds import Rows

VERSIONS_A_READ = 64
CHANGES_MAX = 2_000  # rows of the feed, where an update is two rows
ENOUGH_SECONDS = 10.0
PREFILTERED = ("string", "string_view", "large_string", "int8", "int16", "int32", "int64")


class _TooMany(Exception):
    """The versions have more changes of a key than one answer shows; fewer versions may fit."""


def row_history(app: Application, table: TableInfo, key: str, before_version: int | None, limit: int) -> dict[str, Any]:
    """Return the changes of a key's rows; for a windowed table, of the rows of all its windows.

    before_version: only versions below it. Each change is {"version", "tick", "time_ms", "change": inserted, updated or
    deleted, "key", "before", "after", "decided"}, decided as in `versions`. older: the version below which to go on,
    None at the table's beginning; gone: why older changes can't be read. Raises NotFound, ConfigError, StorageError.
    """
    history = History(app.layout, table.name)
    if not history.key:
        raise StorageError(f"{history.label} does not say what its key is; expected a table of lakehouse.")
    if check_key(key) is None:
        raise ConfigError(
            f"key: found none; expected a key's text. {several_columns_sentence(drop_window_columns(history.key))}"
        )
    if before_version is not None and before_version < 0:
        raise ConfigError(f"before: found {before_version}; expected a version, from 0 on.")
    last_version = history.newest if before_version is None else min(before_version - 1, history.newest)
    with bound_reads(
        read_bounds(f"`lakehouse past changes {table.name} --from N --to N` has no such limit.")
    ) as bounded_read:
        changes, older, gone = _collect_changes(app, history, key, last_version, min(limit, ROWS_MAX), bounded_read)
    intervention_rows = list(read_interventions(app.layout, table.name, VERSIONS_MAX))
    commit_fields = ("tick", "time_ms", "operation")
    commits = {
        commit["version"]: {
            **{name: commit[name] for name in commit_fields},
            "decided": newest_intervention(commit, intervention_rows),
        }
        for commit in _commits_of_changes(app, table, changes)
    }
    return {
        "key": list(drop_window_columns(history.key)),
        "columns": visible_columns(reader.open_dataset(history.path).schema.names),
        "changes": [
            {**change, **commits.get(change["version"], dict.fromkeys((*commit_fields, "decided")))}
            for change in changes
        ],
        "older": older,
        "gone": gone,
    }


def _collect_changes(
    app: Application, history: History, key: str, last_version: int, change_limit: int, bounded_read: BoundedRead
) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """Return the changes back from `last_version`, the version below which to go on, and why older ones are gone."""
    changes: list[dict[str, Any]] = []
    version_count, end_time = VERSIONS_A_READ, time.monotonic() + ENOUGH_SECONDS
    while last_version >= 0:
        first_version = max(last_version - version_count + 1, 0)
        try:
            read_changes, problem = _read_changes(app, history, key, first_version, last_version)
        except (_TooMany, TimedOut, duckdb.InterruptException, duckdb.OutOfMemoryException):
            if changes:  # answer with the changes so far; the next answer goes on where this one ends
                return changes, last_version + 1, None
            if first_version == last_version or time.monotonic() > bounded_read.until:
                raise
            version_count = max(1, version_count // 8)
            continue
        changes, next_version = _cut_to_whole_versions(changes + read_changes)
        if next_version is not None or problem is not None:
            return changes, next_version, problem if next_version is None else None
        last_version = first_version - 1
        if len(changes) >= change_limit or time.monotonic() > end_time:
            return changes, first_version or None, None
    return changes, None, None


def _cut_to_whole_versions(changes: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int | None]:
    """Return the changes that fit into an answer, by whole versions, and the version below which to go on, if any.

    Of a single version that does not fit, it returns the changes that fit, and skips the rest.
    """
    fitting_changes = fitting_items(changes)
    if len(fitting_changes) == len(changes):
        return changes, None
    cut_version = changes[len(fitting_changes)]["version"]
    earlier_changes = [change for change in fitting_changes if change["version"] != cut_version]
    return (earlier_changes, cut_version + 1) if earlier_changes else (fitting_changes, cut_version)


def _commits_of_changes(app: Application, table: TableInfo, changes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if not changes:
        return
    oldest_version = min(change["version"] for change in changes)
    for commit in reader.walk_log_rows(app.layout, table.name):
        if commit["version"] < oldest_version:
            return
        yield commit


def _read_changes(
    app: Application, history: History, key: str, first_version: int, last_version: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the changes of a range of versions, the newest first; and why not all of them can be read."""
    table_rows = reader.open_dataset(history.path)
    key_predicate = key_condition_sql(table_rows, history.key, key)
    key_types = [str(table_rows.schema.field(name).type) for name in drop_window_columns(history.key)]
    # The feed's reader has its own SQL, which writes texts and whole numbers as DuckDB does, but times differently.
    feed_condition = key_predicate if all(key_type in PREFILTERED for key_type in key_types) else None
    try:
        change_feed = reader.walk_change_batches(app.layout, history.name, first_version, last_version, feed_condition)
        return _changes_in_feed(
            change_feed, table_rows, history.key, key_predicate, is_one=first_version == last_version
        ), None
    except NotFound as error:
        if first_version == last_version:
            return [], str(error)
        middle_version = (first_version + last_version) // 2
        newer_changes, problem = _read_changes(app, history, key, middle_version + 1, last_version)
        if problem is not None:
            return newer_changes, problem
        older_changes, problem = _read_changes(app, history, key, first_version, middle_version)
        return newer_changes + older_changes, problem


def _changes_in_feed(
    change_feed: Iterator[pa.RecordBatch],
    table_rows: Rows,
    key_columns: tuple[str, ...],
    condition: str,
    *,
    is_one: bool,
) -> list[dict[str, Any]]:
    """Return a key's changes in the feed, the newest first. Raises _TooMany, unless `is_one`: then the first ones."""
    visible_names, empty_batch = visible_columns(table_rows.schema.names), next(change_feed)
    feed_columns = set(empty_batch.schema.names)
    types_by_name = {name: str(table_rows.schema.field(name).type) for name in visible_names}
    shown_columns = ", ".join(
        f"{shorten_in_sql(quote_name(name), types_by_name[name]) if name in feed_columns else 'NULL'} AS "
        f"{quote_name(name)}"
        for name in visible_names
    )
    connection, bounded_read, row_count = open_duckdb(), current_read(), 0
    for batch_number, batch in enumerate(chain([empty_batch], change_feed)):
        if bounded_read is not None:
            bounded_read.check()
        connection.register("arrow", pa.Table.from_batches([batch]))
        # Go through a table: its texts have a type without filters.
        connection.execute("CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM arrow")
        insert_prefix = "CREATE TEMP TABLE feed AS" if batch_number == 0 else "INSERT INTO feed"
        connection.execute(
            f"{insert_prefix} SELECT {shown_columns}, _change_type, _commit_version FROM part WHERE {condition}"
        )
        row_count = int(connection.execute("SELECT count(*) FROM feed").fetchall()[0][0])
        if row_count > CHANGES_MAX and not is_one:
            raise _TooMany
    if not row_count:
        return []
    order_terms = ", ".join(("_commit_version DESC", *map(quote_name, key_columns)))
    feed_rows = connection.sql(f"SELECT * FROM feed ORDER BY {order_terms} LIMIT {CHANGES_MAX}")
    changes_by_place: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in fetch_rows(feed_rows):
        change_type, version = row.pop("_change_type"), row.pop("_commit_version")
        key_values = {name: row.pop(name) for name in key_columns}
        change_place = (version, *(repr(key_value) for key_value in key_values.values()))
        change = changes_by_place.setdefault(
            change_place, {"version": version, "key": cells_of_row(key_values), "before": None, "after": None}
        )
        change["before" if change_type in ("update_preimage", "delete") else "after"] = {
            column_name: json_cell(column_value) for column_name, column_value in row.items()
        }
    for change in changes_by_place.values():
        change["change"] = (
            "inserted" if change["before"] is None else "deleted" if change["after"] is None else "updated"
        )
    return list(changes_by_place.values())
