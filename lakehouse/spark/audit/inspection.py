"""Detects damage to a table: in its log, in its files, in their bytes, in its content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Log
from pyspark.sql import functions as F

from lakehouse.lake.commit_metadata import app_id
from lakehouse.lake.place import TablePlace
from lakehouse.spark.audit.damage import log_entries
from lakehouse.spark.cluster.root_cause import root_cause
from lakehouse.spark.content import Content, content_of, row_image
from lakehouse.spark.jvm.failure import READ_ERRORS
from lakehouse.spark.open_lake import OpenLake


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, and the first version of the table that can't be trusted; None if only the damaged files show that."""

    fault: str
    first_untrusted: int | None = None


def find_damage(
    lake: OpenLake, place: TablePlace, expected: Content | None = None, since_version: int = 1
) -> Finding | None:
    """Return the first thing that is wrong with a table on a local disk; None if nothing is.

    expected: the content that the table must have, from elsewhere. since_version: foreign commits before this version
    are known already.
    """
    checks = (
        _check_log(place, since_version),
        _check_files(place),
        _check_bytes(lake, place),
        _check_content(lake, place, expected),
    )
    for check in checks:
        for finding in check:
            return finding
    return None


def _check_log(place: TablePlace, since_version: int) -> Iterator[Finding]:
    """Yield holes and unreadable entries, and commits that change rows and are not lakehouse's."""
    previous_version: int | None = None
    for entry in log_entries(place.path):
        version = int(entry.stem)
        if previous_version is not None and version != previous_version + 1:
            yield Finding(f"the log: no entry for version {previous_version + 1}", previous_version + 1)
        previous_version = version
        try:
            actions = [json.loads(line) for line in entry.read_bytes().split(b"\n") if line.strip()]
        except ValueError:
            actions = []
        if not actions:
            yield Finding(f"the log: the entry of version {version} can't be read", version)
        elif version >= since_version and _is_foreign(actions, place.name):
            operation = next(
                (action["commitInfo"].get("operation") for action in actions if "commitInfo" in action), "a commit"
            )
            yield Finding(f"the log: {operation} of version {version} changed rows, and is not lakehouse's", version)


def _is_foreign(actions: list[dict[str, Any]], name: str) -> bool:
    changes_rows = any(action.get(kind, {}).get("dataChange") for action in actions for kind in ("add", "remove"))
    return changes_rows and not any(action.get("txn", {}).get("appId") == app_id(name) for action in actions)


def _check_files(place: TablePlace) -> Iterator[Finding]:
    """Yield the files that the log names and that are missing, or have another size."""
    add_actions = pa.table(Log(place.path).get_add_actions(flatten=True))
    sizes = zip(add_actions["path"].to_pylist(), add_actions["size_bytes"].to_pylist(), strict=True)
    for name, size in sizes:
        file = Path(place.path, name)
        if not file.is_file():
            yield Finding(f"the files: {name} is missing")
        elif file.stat().st_size != size:
            yield Finding(f"the files: {name} has {file.stat().st_size} bytes, the log says {size}")


def _check_bytes(lake: OpenLake, place: TablePlace) -> Iterator[Finding]:
    """Read every page of every column, with its checksum; yield a failure."""
    try:
        rows = lake.read(place.path)
        rows.select(F.max(F.xxhash64(row_image(rows, rows.columns)))).collect()
    except READ_ERRORS as error:
        yield Finding(f"reading every page, with checksums: {root_cause(str(error))}")


def _check_content(lake: OpenLake, place: TablePlace, expected: Content | None) -> Iterator[Finding]:
    if expected is not None and (actual := content_of(lake.read(place.path))) != expected:
        yield Finding(
            f"the content: {actual.rows} rows, hash {actual.hash}; bronze makes {expected.rows}, {expected.hash}"
        )
