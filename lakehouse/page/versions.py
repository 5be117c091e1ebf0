"""The versions of a table over time: the operation, the number of rows, and the first readable version."""

from __future__ import annotations

import time
from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.intervention_log import read_interventions
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.table_versions import QUIET_OPERATIONS
from lakehouse.lake.properties import NEW_DECLARATION, RETENTION
from lakehouse.page.applications import Application, TableInfo
from lakehouse.page.cells import cut_text
from lakehouse.semantics.commit_number import OPEN_EPOCH

VERSIONS_MAX = 500
READ_LOG_SECONDS = 5.0  # some 40,000 commits on a disk; a store needs a request for each
COMMIT_FIELDS = (
    "version",
    "time_ms",
    "operation",
    "tick",
    "from_tick",
    "records",
    "inserted",
    "updated",
    "deleted",
)
# Commits without rows: a new declaration sets properties, and may add columns first.
NO_CHANGE = (*QUIET_OPERATIONS, OPEN_EPOCH, NEW_DECLARATION, RETENTION, "ADD COLUMNS")


def list_versions(app: Application, table: TableInfo, limit: int = VERSIONS_MAX) -> dict[str, Any]:
    """Return versions of the whole log, the oldest first: {"versions", "first_readable", "left_out", "more"}.

    A log of more than `limit` versions is thinned: half of the limit are its newest versions, the others are spread
    over all before them, the first included. left_out: how many are missing between. more: the log is so long that
    its first part was not read.

    In a version, rows: counted back from the newest version by the inserted and deleted rows of each commit; None
    before a commit without these numbers. quiet: no row has changed. decided: {kind, by, reason} of the newest
    intervention that it took in, else None. first_readable: VACUUM has removed files of earlier versions.
    """
    table_history = History(app.layout, table.name)
    version_rows, reaches_start = _read_version_rows(app, table, table_history)
    kept_rows = _thin_out(version_rows, limit)
    intervention_rows = list(read_interventions(app.layout, table.name, limit))
    decided_rows = [{**row, "decided": newest_intervention(row, intervention_rows)} for row in kept_rows]
    return {
        "versions": decided_rows,
        "first_readable": _first_readable(table_history, kept_rows),
        "left_out": len(version_rows) - len(kept_rows),
        "more": not reaches_start,
    }


def _read_version_rows(app: Application, table: TableInfo, history: History) -> tuple[list[dict[str, Any]], bool]:
    """Return all versions, the oldest first, as far back as the time allows; and whether that is the log's start."""
    deadline = time.monotonic() + READ_LOG_SECONDS
    row_count: int | None = None
    version_rows: list[dict[str, Any]] = []
    for commit in reader.walk_log_rows(app.layout, table.name):
        if not version_rows:
            row_count = reader.count_rows(reader.open_table(history.path, history.label, commit["version"]))
        elif time.monotonic() > deadline:
            return version_rows[::-1], False
        row = {name: commit[name] for name in COMMIT_FIELDS}
        version_rows.append({**row, "rows": row_count, "quiet": commit["operation"] in NO_CHANGE})
        row_count = _count_rows_before(commit, row_count)
    return version_rows[::-1], True


def _thin_out(version_rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return at most `limit` versions: the newest half, and as many spread over all before, the first included."""
    if len(version_rows) <= limit:
        return version_rows
    spread_count = limit // 2
    older_count = len(version_rows) - (limit - spread_count)
    spread_rows = [version_rows[number * older_count // spread_count] for number in range(spread_count)]
    return spread_rows + version_rows[older_count:]


def newest_intervention(commit: dict[str, Any], interventions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the newest of these interventions that a commit took in, as {kind, by, reason}; None without one.

    interventions: rows of the log, the newest first. kind: that of the intervention, "erasure" for an erasure's swap.
    """
    first_tick, last_tick = commit["from_tick"], commit["tick"]
    if first_tick is None or last_tick is None:
        return None
    intervention = next((row for row in interventions if first_tick < row["at"] <= last_tick), None)
    return intervention and {
        "kind": "erasure" if intervention["details"].get("erasure") else intervention["kind"],
        "by": cut_text(intervention["decided_by"]),
        "reason": cut_text(intervention["reason"] or ""),
    }


def _count_rows_before(commit: dict[str, Any], row_count: int | None) -> int | None:
    if commit["operation"] in NO_CHANGE:
        return row_count
    if row_count is None or commit["inserted"] is None:
        return None
    earlier_count = row_count - commit["inserted"] + (commit["deleted"] or 0)
    return earlier_count if earlier_count >= 0 else None


def _first_readable(table_history: History, version_rows: list[dict[str, Any]]) -> int:
    """Return the first readable version, by a binary search, since VACUUM removes the oldest files first."""
    low_version, high_version = version_rows[0]["version"], version_rows[-1]["version"]
    while low_version < high_version:
        middle_version = (low_version + high_version) // 2
        low_version, high_version = (
            (low_version, middle_version)
            if table_history.is_readable(middle_version)
            else (middle_version + 1, high_version)
        )
    return int(low_version)
