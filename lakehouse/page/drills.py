"""The drills of a table: whether a restore worked, in which ways, and how long it took."""

from __future__ import annotations

from itertools import islice
from typing import Any

from lakehouse.page.applications import Application
from lakehouse.run.drill import logbook

DRILLS_MAX = 100


def list_drills(app: Application, table: str | None, limit: int = DRILLS_MAX) -> list[dict[str, Any]]:
    """Return the drills of one of the application's tables, or of all of them, the newest first.

    Raises NotFound for another table, StorageError for a history that `lakehouse test drill` did not write.
    """
    table_names = {app.table(table).name} if table is not None else {entry.name for entry in app.tables}
    app_drills = (entry for entry in logbook.read_history(app.layout, table) if entry["table"] in table_names)
    # A hash has 64 bits; a browser would lose some of them.
    return [{**entry, "hash": f"{entry['hash'] & (1 << 64) - 1:016x}"} for entry in islice(app_drills, limit)]
