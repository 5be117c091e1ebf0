"""Reads the last ticks from the files that their commits name: Delta runs Spark jobs to find these files."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.commit_metadata import app_id
from lakehouse.lake.place import TablePlace
from lakehouse.spark.jvm.delta_log import read_files
from lakehouse.spark.transaction import commit_log_of, read_progress

TICKS_MAX = 16  # a batch has few; more would mean to read many commits


def read_recent(spark: SparkSession, place: TablePlace, after_tick: int) -> DataFrame | None:
    """Return the rows of a table of bronze that have a tick after `after_tick`, and perhaps others.

    None if only Delta can tell: there are many such ticks, or commits have changed files since.
    """
    if read_progress(spark, place).tick - after_tick > TICKS_MAX:
        return None
    log = commit_log_of(spark, place.path)
    file_lines = _added_files(log, place, after_tick)
    return None if file_lines is None else read_files(spark, place.path, file_lines)


def _added_files(log: CommitLog, place: TablePlace, after_tick: int) -> list[str] | None:
    """Return the log's lines of the files that were added after a tick; None if the log does not tell."""
    added_lines: list[str] = []
    for version in range(log.newest, -1, -1):
        lines = log.lines(version)
        if lines is None:
            return None
        metadata = log.describe(version, lines).metadata
        if metadata is not None and metadata.app == app_id(place.name) and metadata.tick <= after_tick:
            return added_lines
        for line in lines:
            action: dict[str, Any] = json.loads(line)
            if "remove" in action:
                return None
            if "add" in action:
                if not action["add"]["dataChange"]:
                    return None  # a file that is there already, such as with the ids of row tracking
                added_lines.append(line)
    return added_lines
