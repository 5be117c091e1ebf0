"""The end of a command or a job: one clear message, and an exit code by which a program can distinguish errors."""

from __future__ import annotations

import errno
import os
import re

from lakehouse.errors import ConfigError, LakehouseError, LeaseHeld, NotFound, PlanError

# Errors of a folder, a file or the disk, and not of this program.
TOLD = {
    errno.EACCES: "this user may not read or write it; change its owner or its mode, or name another",
    errno.EPERM: "this user may not do that with it; change its owner, or name another",
    errno.EROFS: "its file system can only be read; name another folder",
    errno.ENOSPC: "the disk is full; make room, or name another folder",
    errno.EDQUOT: "this user's quota is used up; make room, or name another folder",
    errno.ENOTDIR: "a part of its path is a file; expected a folder",
    errno.EISDIR: "it is a folder; expected a file",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
}
REPORT = re.compile(r"file (/[^\n]+)\n[^\n]*\(os error (\d+)\)")
OK = 0
FAILED = 1
BAD_INPUT = 2
TABLE_HELD = 3
INTERRUPTED = 130


def file_error_message(error: Exception) -> str | None:
    """Return a message for an error of a file or a folder; None for another error.

    The error may be Python's, or quote a report of delta-rs: "Unable to open file /lake/x", "(os error 13)" below it.
    """
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        file_path, error_number = os.fsdecode(error.filename), error.errno
    elif report_match := REPORT.search(str(error)):
        file_path, error_number = report_match[1], int(report_match[2])
    else:
        return None
    if error_number not in TOLD:
        return None
    return f"{file_path}: {os.strerror(error_number)}: {TOLD[error_number]}. --debug shows where it happened."


def exit_code(error: LakehouseError) -> int:
    """Return 2 for bad input, 3 when another process writes the table, 1 for everything else."""
    if isinstance(error, ConfigError | PlanError | NotFound):
        return BAD_INPUT
    return TABLE_HELD if isinstance(error, LeaseHeld) else FAILED
