"""The results of drills, and their history: <lake>/control/drills/, a file of JSON for each drill.

The history is in text files: people can read them even when no table is readable any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from lakehouse.errors import StorageError
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.layout import Layout


@dataclass(frozen=True, slots=True)
class Recovery:
    """A way of restoring: its time, its result, and how many keys are lost or wrong. equal: None if impossible."""

    way: str
    seconds: float
    rows: int | None = None
    equal: bool | None = None
    lost: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DrillCase:
    """A damage to the copy, the check that detected it (None: no check did), and each way of restoring."""

    damage: str
    done: str
    found_by: str | None
    found_seconds: float
    restored: tuple[Recovery, ...]

    @property
    def ok(self) -> bool:
        """True if the damage was detected, no way gave a wrong table, and at least one way gave the right table."""
        results = [recovery.equal for recovery in self.restored]
        return self.found_by is not None and True in results and False not in results


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill: the table at a tick, its row count and hash, and the result of each damage."""

    at: str
    table: str
    tick: int
    rows: int
    hash: int
    seconds: float
    ok: bool
    cases: tuple[DrillCase, ...] = field(default=())


# The type of each field of a drill in the history.
_FIELD_TYPES: dict[str, Any] = {
    "at": str, "table": str, "tick": int, "rows": int, "hash": int, "seconds": int | float, "ok": bool, "cases": list,
}  # fmt: skip


def read_history(layout: Layout, table: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the drills of one table, or of all, the newest first. Raises StorageError for a file that has no drill.

    table: its name in any case, as the other commands take it.
    """
    suffix = ".json" if table is None else f".{table}.json".lower()
    for name in sorted(store.file_names(layout.drills), reverse=True):
        if name.lower().endswith(suffix):
            yield _read_drill(f"{layout.drills}/{name}")


def _read_drill(path: str) -> dict[str, Any]:
    try:
        drill = json.loads("".join(store.read_lines(path)))
    except (ValueError, RecursionError, OSError) as error:
        raise _not_a_drill(path, str(error)) from error
    if not isinstance(drill, dict):
        raise _not_a_drill(path, f"a {type(drill).__name__}")
    for name, field_type in _FIELD_TYPES.items():
        if not isinstance(drill.get(name), field_type):
            raise _not_a_drill(path, f"{name}: {drill[name]!r:.100}" if name in drill else f"no field {name}")
    return drill


def _not_a_drill(path: str, fault: str) -> StorageError:
    return StorageError(
        f"{path}: found {fault}; expected a file that `lakehouse test drill` wrote. Remove it: the history can be lost "
        "without harm."
    )


def add_to_history(layout: Layout, drill: Drill) -> None:
    """Add a drill to the history. Raises StorageError, OSError."""
    time_text = re.sub(r"[^0-9T]", "", drill.at.partition("+")[0])  # 20261128T041500, which sorts as time does
    note.write(f"{layout.drills}/{time_text}.{drill.table}.json", asdict(drill))
