"""Bronze, and quarantines, written without Spark, tick by tick, as a run leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.formats.decode import decode_record
from lakehouse.lake.commit_metadata import TopicState, parse_metadata
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.record import Record

from .written_commits import tick_text

TIME = pa.timestamp("us", "UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    {
        "topic": pa.string(), "topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": TIME, "timestamp_type": pa.int32(), "headers": HEADERS, "key": pa.binary(), "value": pa.binary(),
        "tick": pa.int64(), "order_time": TIME,
    }
)  # fmt: skip


def write_bronze(root: Path, records: Iterable[Record], own: Iterable[str] = (), files: int = 1) -> None:
    """Write records, by their ticks, into the bronze under `root`; topics in `own` into tables of their own.

    files: how many files a tick has. Rows are in them in the order given.
    """
    own = set(own)
    states: dict[str, TopicState] = {}
    for tick, group in groupby(sorted(records, key=lambda record: record.tick), key=lambda record: record.tick):
        rows = list(group)
        for record in rows:
            state = states.get(record.topic)
            if state is None or state.id != record.topic_id:
                state = TopicState(record.topic_id)
            following = max(record.offset + 1, state.next.get(record.partition, 0))
            states[record.topic] = replace(state, next={**state.next, record.partition: following})
        said = tick_text(tick, states)
        for topic in sorted(own):
            append(root / "bronze" / "own" / topic, tick, [r for r in rows if r.topic == topic], said)
        shared = [record for record in rows if record.topic not in own]
        for number in range(files):
            # The last one completes the tick.
            append(root / "bronze" / "records", tick, shared[number::files], said if number == files - 1 else None)


def write_quarantine(root: Path, source: Source, records: Iterable[Record]) -> None:
    """Write the records that do not fit a source into the quarantine of its stream under `root`."""
    result = model.run(App((), (), (source,)), records, decode_record)
    rows = [{**_row(record), "reason": reason} for record, reason in result.quarantine[source.name]]
    table = pa.Table.from_pylist(rows, SCHEMA.append(pa.field("reason", pa.string())))
    write_deltalake(str(root / "quarantine" / source.name), table, mode="append")


def append(path: Path, tick: int, records: list[Record], said: str | None) -> None:
    """Append records to a table of bronze, in one commit; `said` makes it a tick's."""
    done = [] if said is None else [Transaction("lakehouse.ingest", (1 << 40) + tick)]
    metadata = {} if said is None else {"userMetadata": said}
    commit = CommitProperties(custom_metadata=metadata, app_transactions=done)
    table = pa.Table.from_pylist(list(map(_row, records)), SCHEMA)
    write_deltalake(str(path), table, mode="append", partition_by=["topic"], commit_properties=commit)


def _row(record: Record) -> dict[str, Any]:
    names = ("topic", "topic_id", "partition", "offset", "timestamp_type", "key", "value", "tick")
    headers = [{"key": name, "value": value} for name, value in record.headers] or None
    times = {"timestamp": to_datetime(record.timestamp), "order_time": to_datetime(record.order_time)}
    return {**{name: getattr(record, name) for name in names}, **times, "headers": headers}


def committed(root: Path) -> dict[int, int]:
    """When each tick of the shared table was committed: milliseconds since the epoch."""
    history = DeltaTable(str(root / "bronze" / "records")).history()
    ticks = [commit for commit in history if "userMetadata" in commit]
    return {_tick_of(commit): commit["timestamp"] for commit in ticks}


def _tick_of(commit: dict[str, Any]) -> int:
    metadata = parse_metadata(commit["userMetadata"], "a tick")
    assert metadata is not None
    return metadata.tick
