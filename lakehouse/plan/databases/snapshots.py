"""Files that each hold all rows of a table at a time, as a stream: the declaration of a table without a change log."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from lakehouse.errors import ConfigError, PlanError
from lakehouse.file_faults import expand_home
from lakehouse.plan.build import declared_source, stream_name
from lakehouse.plan.expression.schema import check_name, parse_schema
from lakehouse.plan.names.format_traits import JSON
from lakehouse.plan.origin import SNAPSHOT_TIME, Snapshots, Source
from lakehouse.plan.refused.arguments import check_flag
from lakehouse.plan.registered.pinned import declaring_folder
from lakehouse.plan.stream import Stream

KINDS = ("parquet", "csv", "json", "delta")
KINDS_BY_SUFFIX = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
PARTITIONS_MAX = 10_000


def snapshots(
    topic: str,
    path: str,
    *,
    key: str,
    schema: str,
    at: str | None = None,
    kind: str | None = None,
    partitions: int = 1,
    allow_empty: bool = False,
    event_time: str | None = None,
    name: str | None = None,
    own_table: bool = False,
) -> Stream:
    """Declare files that each hold all rows of a table at a time as a stream of its changes: docs/snapshots.md.

    A run compares each new snapshot with the topic, and writes to it what differs: a record for a row that is new or
    changed, a tombstone for one that is gone, with the snapshot's time as the record's timestamp, and the file and the
    row as headers. So `.latest("customers")` is the table, and its past, too. The topic is created, and written by
    nobody else.

    topic: the Kafka topic of the changes. path: of the files, on this machine (from the application's folder on) or in
    the lake's store: "exports/customers-{at}.parquet". {at} stands for the snapshot's time, in any form of ISO 8601;
    files with the same one are one snapshot; * stands for any other part of a name. Of a Delta table it is the folder,
    and each version is a snapshot. at: the column with the snapshot's time, for a path without {at}. key, schema: the
    columns of the key and the others, as in `stream`. kind: "parquet", "csv" (with a line of names), "json" (an object
    a line) or "delta"; by the path's ending if left out. partitions: of a topic that is created. allow_empty: a
    snapshot without a row deletes all rows; by default it is refused, for it may be an export that failed. event_time,
    name, own_table: as in `stream`.

    Raises PlanError for impossible names, types or options.
    """
    subject = f"stream {stream_name(topic, name)!r}"
    if not isinstance(path, str) or not path.strip():
        raise PlanError(
            f'{subject}: path={path!r}: expected the files, such as "exports/customers-{SNAPSHOT_TIME}.csv".'
        )
    if kind is None:
        kind = KINDS_BY_SUFFIX.get(Path(path.removesuffix(".gz")).suffix)
    if kind not in KINDS:
        raise PlanError(f"{subject}: kind={kind!r}: expected {', '.join(map(repr, KINDS[:-1]))} or {KINDS[-1]!r}.")
    if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MAX:
        raise PlanError(f"{subject}: partitions={partitions!r}: expected a number from 1 to {PARTITIONS_MAX:,}.")
    check_flag(allow_empty, f"{subject}: allow_empty")
    _check_time(path, at, kind, subject)
    stream = declared_source(
        topic, key=key, value_columns=parse_schema(schema, f"{subject}: schema"), value_format=JSON, key_format=None,
        event_time=event_time, name=name, own_table=own_table, headers="", max_ahead=None,
    )  # fmt: skip
    assert isinstance(stream.source, Source)
    absolute_path = _absolute(path, declaring_folder(), subject)
    declared_snapshots = Snapshots(absolute_path, kind, at or "", partitions, allow_empty)
    return replace(stream, source=replace(stream.source, snapshots=declared_snapshots))


def _check_time(path: str, at: str | None, kind: str, subject: str) -> None:
    """Raise PlanError unless a path, or a column, or a version says the time of a snapshot."""
    time_count = path.count(SNAPSHOT_TIME)
    if re.search(r"[{}]", path.replace(SNAPSHOT_TIME, "")) or time_count > 1:
        raise PlanError(f"{subject}: path={path!r}: expected {SNAPSHOT_TIME} once, and no other braces.")
    if kind == "delta" and (time_count or at is not None or "*" in path):
        raise PlanError(
            f"{subject}: a Delta table's versions have their times; expected the table's folder, without "
            f"{SNAPSHOT_TIME}, * or at."
        )
    if kind != "delta" and bool(time_count) == (at is not None):
        raise PlanError(
            f"{subject}: path={path!r}, at={at!r}: the time of a snapshot stands in the file's name, as "
            f'"customers-{SNAPSHOT_TIME}.parquet", or in a column, at="exported_at". Expected one of the two.'
        )
    if at is not None:
        check_name(at, f"{subject}: at")


def _absolute(path: str, folder: Path, subject: str) -> str:
    """Return a path with its folder; the name of a store as Spark writes it."""
    if "://" in path:
        return re.sub(r"^s3n?://", "s3a://", path)
    try:
        return str(folder / expand_home(path))
    except ConfigError as error:
        raise PlanError(f"{subject}: path: {error}.") from None
