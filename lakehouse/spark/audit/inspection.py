"""The detection of damage to a table: in its log, in its files, in their bytes, in its content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Log
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from lakehouse.lake.place import TablePlace
from lakehouse.spark.audit.damage import entries
from lakehouse.spark.failure import cause
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.operators.content import Content, content, image
from lakehouse.spark.transaction import app_id


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and the first version of the table that can't be trusted: None where the files must tell."""

    what: str
    before: int | None = None


def inspect(lake: OpenLake, place: TablePlace, truth: Content | None = None, since: int = 1) -> Finding | None:
    """Return the first thing that is wrong with a table on a local disk; None if nothing is.

    truth: the content that it must have, from elsewhere. since: others' commits before this version are known already.
    """
    checks = (_log(place, since), _lost(place), _bytes(lake, place), _content(lake, place, truth))
    for check in checks:
        for finding in check:
            return finding
    return None


def _log(place: TablePlace, since: int) -> Iterator[Finding]:
    """Holes and entries that can't be read; commits that change rows and are not lakehouse's."""
    before: int | None = None
    for entry in entries(place.path):
        version = int(entry.stem)
        if before is not None and version != before + 1:
            yield Finding(f"the log: no entry for version {before + 1}", before + 1)
        before = version
        try:
            actions = [json.loads(line) for line in entry.read_text().splitlines() if line.strip()]
        except ValueError:
            actions = []
        if not actions:
            yield Finding(f"the log: the entry of version {version} can't be read", version)
        elif version >= since and _is_foreign(actions, place.name):
            operation = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), "a commit")
            yield Finding(f"the log: {operation} of version {version} changed rows, and is not lakehouse's", version)


def _is_foreign(actions: list[dict[str, Any]], name: str) -> bool:
    changes = any(action.get(kind, {}).get("dataChange") for action in actions for kind in ("add", "remove"))
    return changes and not any(action.get("txn", {}).get("appId") == app_id(name) for action in actions)


def _lost(place: TablePlace) -> Iterator[Finding]:
    """Files that the log names and that are missing, or have another size."""
    actions = pa.table(Log(place.path).get_add_actions(flatten=True))
    sizes = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    for name, size in sizes:
        file = Path(place.path, name)
        if not file.is_file():
            yield Finding(f"the files: {name} is missing")
        elif file.stat().st_size != size:
            yield Finding(f"the files: {name} has {file.stat().st_size} bytes, the log says {size}")


def _bytes(lake: OpenLake, place: TablePlace) -> Iterator[Finding]:
    """Every page of every column is read, and its checksum compared."""
    try:
        rows = lake.read(place.path)
        rows.select(F.max(F.xxhash64(image(rows, rows.columns)))).collect()
    except (PySparkException, Py4JJavaError) as error:
        yield Finding(f"reading every page, with checksums: {cause(str(error))}")


def _content(lake: OpenLake, place: TablePlace, truth: Content | None) -> Iterator[Finding]:
    if truth is not None and (found := content(lake.read(place.path))) != truth:
        yield Finding(f"the content: {found.rows} rows, hash {found.hash}; bronze makes {truth.rows}, {truth.hash}")
