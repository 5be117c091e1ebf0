"""The results of drills, and their history: <lake>/control/drills/history.jsonl, a line for each drill.

The history is a text file: people can read it even when no table is readable any more.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.durable import append_line_durably
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


def read_history(layout: Layout, table: str | None = None) -> list[dict[str, Any]]:
    """Return the drills of one table, or of all, the newest first."""
    path = Path(layout.drills, "history.jsonl")
    history_lines = path.read_text().splitlines() if path.exists() else []
    drills = []
    for line in reversed(history_lines):
        try:
            drills.append(json.loads(line))
        except ValueError:
            continue  # the line was cut off: the drill is not in the history
    return [drill for drill in drills if table is None or drill["table"] == table]


def remember(layout: Layout, drill: Drill) -> None:
    """Add a drill to the history."""
    append_line_durably(Path(layout.drills, "history.jsonl"), json.dumps(asdict(drill)))
