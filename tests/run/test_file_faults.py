"""Errors of files, folders and disks: one message, in whatever trace they were told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakehouse import file_faults
from lakehouse.errors import JobFailed
from lakehouse.file_faults import describe_file_fault

PY4J = "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted.\n\tat x(Y.scala:1)\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{PY4J}Caused by: java.io.FileNotFoundException: /my lake/a.parquet (No space left on device)\n\tat z",
            "/my lake/a.parquet: No space left on device: the disk is full",
        ),
        (f"{PY4J}Caused by: java.io.IOException: No space left on device\n", "No space left on device: the disk"),
        (
            f"{PY4J}Caused by: java.nio.file.FileSystemException: /lake/_delta_log/.1.tmp: Read-only file system",
            "/lake/_delta_log/.1.tmp: Read-only file system: its file system can only be read",
        ),
        (
            f"{PY4J}Caused by: java.nio.file.AccessDeniedException: /lake/silver/t\n\tat q",
            "/lake/silver/t: Permission denied: this user may not read or write it",
        ),
        (f"{PY4J}Caused by: java.io.IOException: Too many open files\n", "Too many open files: this process has"),
        (
            "Kernel error -> Generic\n  ↳ Unable to open file /lake/0.json\n   ↳ Permission denied (os error 13)\n",
            "/lake/0.json: Permission denied",
        ),
        (f"{PY4J}Caused by: java.lang.RuntimeException: a record says No space left on device\n", None),
        (f"{PY4J}Caused by: java.io.IOException: Connection reset by peer\n", None),
    ],
)
def test_what_other_programs_tell(text: str, message: str | None) -> None:
    found = describe_file_fault(RuntimeError(text))
    assert (found is None) == (message is None)
    assert message is None or (found or "").startswith(message)


def test_the_cause_of_an_error_counts_whatever_was_raised_from_it() -> None:
    failed = JobFailed("ingest failed")
    failed.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/lake/control/a.new")
    assert str(describe_file_fault(failed)).startswith("/lake/control/a.new: No space left on device")
    assert describe_file_fault(OSError(errno.ECONNREFUSED, "Connection refused")) is None
    assert describe_file_fault(ValueError("x")) is None


def test_a_full_folder_is_named_where_the_error_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(describe_file_fault(error, [tmp_path])).startswith("No space left on device")
    monkeypatch.setattr(file_faults, "LITTLE_BYTES", 1 << 62)
    assert str(describe_file_fault(error, [tmp_path, Path("/none")])).startswith(f"{tmp_path}: No space left on device")
