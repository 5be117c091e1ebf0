"""The versions of a table over time: what made each, how many rows it has, and which one is the first readable."""

from __future__ import annotations

from itertools import islice
from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.intervention_log import logged
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.version import QUIET
from lakehouse.lake.properties import NEW_DECLARATION, RETENTION
from lakehouse.page.applications import Application, TableOf
from lakehouse.page.cells import cut
from lakehouse.semantics.epoch import OPEN_EPOCH

VERSIONS_MAX = 500
# Commits without rows: a new declaration sets properties, and may add columns first.
NO_CHANGE = (*QUIET, OPEN_EPOCH, NEW_DECLARATION, RETENTION, "ADD COLUMNS")


def versions(app: Application, table: TableOf, limit: int = VERSIONS_MAX) -> dict[str, Any]:
    """Return the newest versions, the oldest of them first: {"versions", "first_readable", "more"}.

    rows: counted back from the newest version by the inserted and deleted rows of each commit; None before a commit
    without these numbers. quiet: no row has changed. decided: {kind, by, reason} of the newest intervention that it
    took in, else None; by: None if an earlier release did not record it. first_readable: VACUUM has removed files of
    earlier versions. more: older ones were left out.
    """
    history = History(app.layout, table.name)
    found = list(islice(reader.versions(app.layout, table.name), limit + 1))
    rows: int | None = reader.count_rows(reader.open_table(history.path, history.what, found[0]["version"]))
    said: list[dict[str, Any]] = []
    decisions = list(logged(app.layout, table.name, limit))
    for commit in found[:limit]:
        names = ("version", "time_ms", "operation", "tick", "from_tick", "records", "inserted", "updated", "deleted")
        more = {"rows": rows, "quiet": commit["operation"] in NO_CHANGE, "decided": decided(commit, decisions)}
        said.append({**{name: commit[name] for name in names}, **more})
        rows = _rows_before(commit, rows)
    said.reverse()
    return {"versions": said, "first_readable": _first_readable(history, said), "more": len(found) > limit}


def decided(commit: dict[str, Any], decisions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the newest intervention that a commit took in, of those of `logged`: {kind, by, reason}; None without."""
    first, last = commit["from_tick"], commit["tick"]
    if first is None or last is None:
        return None
    made = next((one for one in decisions if first < one["at"] <= last), None)
    return made and {
        "kind": made["kind"],
        "by": cut(made["decided_by"] or "") or None,
        "reason": cut(made["reason"] or ""),
    }


def _rows_before(commit: dict[str, Any], rows: int | None) -> int | None:
    if commit["operation"] in NO_CHANGE:
        return rows
    if rows is None or commit["inserted"] is None:
        return None
    before = rows - commit["inserted"] + (commit["deleted"] or 0)
    return before if before >= 0 else None


def _first_readable(history: History, said: list[dict[str, Any]]) -> int:
    """VACUUM removes the oldest files first, so a binary search finds the first version that is whole."""
    low, high = said[0]["version"], said[-1]["version"]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if history.readable(middle) else (middle + 1, high)
    return int(low)
