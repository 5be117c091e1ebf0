"""The drills of a table: whether it could be restored, in which ways, and how long that took."""

from __future__ import annotations

from typing import Any

from lakehouse.errors import StorageError
from lakehouse.page.applications import Application
from lakehouse.run.drill import logbook

DRILLS_MAX = 100


def history(app: Application, table: str | None, limit: int = DRILLS_MAX) -> list[dict[str, Any]]:
    """Return the drills of one of the application's tables, or of all of them, the newest first.

    Raises NotFound for another table, StorageError for a history that `lakehouse test drill` did not write.
    """
    names = {app.table(table).name} if table is not None else {one.name for one in app.tables}
    try:
        found = [one for one in logbook.history(app.layout) if one["table"] in names]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise StorageError(
            f"{app.layout.drills}/history.jsonl: found {error}; expected a line of JSON for each drill. Remove the "
            "invalid line: the history can be lost without harm."
        ) from error
    # A hash has 64 bits; a browser would lose some of them.
    return [{**one, "hash": f"{one['hash'] & (1 << 64) - 1:016x}"} for one in found[:limit]]
