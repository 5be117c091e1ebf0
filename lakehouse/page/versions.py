"""The versions of a table over time: the operation, the number of rows, and the first readable version."""

from __future__ import annotations

from itertools import islice
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
# Commits without rows: a new declaration sets properties, and may add columns first.
NO_CHANGE = (*QUIET_OPERATIONS, OPEN_EPOCH, NEW_DECLARATION, RETENTION, "ADD COLUMNS")


def versions(app: Application, table: TableInfo, limit: int = VERSIONS_MAX) -> dict[str, Any]:
    """Return the newest versions, the oldest of them first: {"versions", "first_readable", "more"}.

    In a version, rows: counted back from the newest version by the inserted and deleted rows of each commit; None
    before a commit without these numbers. quiet: no row has changed. decided: {kind, by, reason} of the newest
    intervention that it took in, else None. first_readable: VACUUM has removed files of earlier versions. more: older
    versions were left out.
    """
    table_history = History(app.layout, table.name)
    newest_commits = list(islice(reader.walk_log_rows(app.layout, table.name), limit + 1))
    row_count: int | None = reader.count_rows(
        reader.open_table(table_history.path, table_history.what, newest_commits[0]["version"])
    )
    version_rows: list[dict[str, Any]] = []
    intervention_rows = list(read_interventions(app.layout, table.name, limit))
    for commit in newest_commits[:limit]:
        commit_fields = (
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
        further_fields = {
            "rows": row_count,
            "quiet": commit["operation"] in NO_CHANGE,
            "decided": newest_intervention(commit, intervention_rows),
        }
        version_rows.append({**{name: commit[name] for name in commit_fields}, **further_fields})
        row_count = _rows_before(commit, row_count)
    version_rows.reverse()
    return {
        "versions": version_rows,
        "first_readable": _first_readable(table_history, version_rows),
        "more": len(newest_commits) > limit,
    }


def newest_intervention(commit: dict[str, Any], decisions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the newest intervention that a commit took in, of those of `logged`: {kind, by, reason}; None without.

    kind: that of the intervention; "erasure" for the swap of one.
    """
    first_tick, last_tick = commit["from_tick"], commit["tick"]
    if first_tick is None or last_tick is None:
        return None
    intervention = next((decision for decision in decisions if first_tick < decision["at"] <= last_tick), None)
    return intervention and {
        "kind": "erasure" if intervention["details"].get("erasure") else intervention["kind"],
        "by": cut_text(intervention["decided_by"]),
        "reason": cut_text(intervention["reason"] or ""),
    }


def _rows_before(commit: dict[str, Any], rows: int | None) -> int | None:
    if commit["operation"] in NO_CHANGE:
        return rows
    if rows is None or commit["inserted"] is None:
        return None
    earlier_count = rows - commit["inserted"] + (commit["deleted"] or 0)
    return earlier_count if earlier_count >= 0 else None


def _first_readable(table_history: History, version_rows: list[dict[str, Any]]) -> int:
    """Return the first readable version, by a binary search, since VACUUM removes the oldest files first."""
    low_version, high_version = version_rows[0]["version"], version_rows[-1]["version"]
    while low_version < high_version:
        middle_version = (low_version + high_version) // 2
        low_version, high_version = (
            (low_version, middle_version)
            if table_history.readable(middle_version)
            else (middle_version + 1, high_version)
        )
    return int(low_version)
