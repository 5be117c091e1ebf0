"""The end of a command or a job: one clear message, and an exit code by which a program can distinguish errors."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lakehouse.errors import ConfigError, LakehouseError, LeaseHeld, NotFound, PlanError
from lakehouse.file_faults import describe_file_fault

OK = 0
FAILED = 1
BAD_INPUT = 2
TABLE_HELD = 3
INTERRUPTED = 130


def file_error_message(error: Exception) -> str | None:
    """Return a message for an error of a file, a folder or a disk; None for another error.

    An error of lakehouse's own says what to do already, unless it quotes another program's report about a file.
    """
    if isinstance(error, LakehouseError) and "(os error " not in str(error):
        return None
    try:
        current_folder = Path.cwd()
    except FileNotFoundError:
        return "the current folder was removed meanwhile; change into one that is there, and try again."
    message = describe_file_fault(error, (current_folder, Path(tempfile.gettempdir())))
    return None if message is None else f"{message} --debug shows where it happened."


def java_error_message(error: Exception) -> str | None:
    """Return a message for an error that came because Java has ended; None for another."""
    if "py4j" not in sys.modules:
        return None
    from lakehouse.spark.jvm.failure import ENDED, is_caused_by_ended_spark

    return ENDED if is_caused_by_ended_spark(error) else None


def exit_code(error: LakehouseError) -> int:
    """Return 2 for bad input, 3 when another process writes the table, 1 for everything else."""
    if isinstance(error, ConfigError | PlanError | NotFound):
        return BAD_INPUT
    return TABLE_HELD if isinstance(error, LeaseHeld) else FAILED
