"""How the command, and the jobs, end: one clear message, and an exit code that a program can tell apart."""

from __future__ import annotations

from lakehouse.errors import ConfigError, LakehouseError, LeaseHeld, NotFound, PlanError

OK = 0
FAILED = 1
BAD_INPUT = 2
TABLE_HELD = 3
INTERRUPTED = 130


def exit_code(error: LakehouseError) -> int:
    """Return 2 for bad input, 3 when another process writes the table, 1 for everything else."""
    if isinstance(error, ConfigError | PlanError | NotFound):
        return BAD_INPUT
    return TABLE_HELD if isinstance(error, LeaseHeld) else FAILED
