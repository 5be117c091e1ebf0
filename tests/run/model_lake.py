"""A lake with the model's results, written without Spark: bronze, late tables and silver, one commit each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from lakehouse.lake.commit_metadata import VisibleCommit
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.model.event import from_hashable
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.scenario.replay import keep_declared
from lakehouse.semantics.commit_number import Progress
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.record import Record

from ..written_commits import commit_text

MOMENT = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PLACE = [("tick", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
BRONZE = pa.schema(
    [
        *PLACE, ("topic_id", pa.string()), ("timestamp", MOMENT), ("timestamp_type", pa.int32()), ("headers", HEADERS),
        ("key", pa.binary()), ("value", pa.binary()), ("order_time", MOMENT),
    ]
)  # fmt: skip
LATE = pa.schema(
    [
        *PLACE, ("ordinals", pa.list_(pa.int64())), ("key", pa.string()), ("window_start", MOMENT),
        ("window_end", MOMENT), ("join_name", pa.string()),
    ]
)  # fmt: skip


def write_lake(layout: Layout, app: App, records: list[Record], result: Result, *, silver: bool = True) -> int:
    """Write the model's result for records; return the last tick. silver: False if nobody reads the tables."""
    last = max((record.tick for record in records), default=0)
    write_bronze(layout, app, records, last)
    for table in app.tables:
        write_late(layout, table, result, last)
        if silver:
            write_rows(layout, table, result, last)
    return last


def write_bronze(layout: Layout, app: App, records: list[Record], last: int) -> None:
    rows: dict[str, list[dict[str, Any]]] = {layout.records: []}
    own = {source.topic for source in app.sources if source.own_table}
    for record in records:
        row = asdict(record) | {"headers": [{"key": name, "value": value} for name, value in record.headers]}
        times = {name: row[name] * 1000 for name in ("timestamp", "order_time")}
        path = layout.own_records(record.topic) if record.topic in own else layout.records
        rows.setdefault(path, []).append(row | times)
    for path, some in rows.items():
        _write(path, pa.Table.from_pylist(some, BRONZE), "ingest", last, ["topic"])
    keep_declared(LakeSchemas(layout), app, last)


def write_late(layout: Layout, table: Table, result: Result, last: int) -> None:
    found = []
    for late in result.late[table.name]:
        place = late.position._asdict()
        row = {name: place[name] for name in LATE.names[:5]} | {"key": "{}"}
        if late.span is not None:
            row |= {"window_start": to_datetime(late.span.start), "window_end": to_datetime(late.span.end)}
        found.append(row)
    _write(layout.late(table.name), pa.Table.from_pylist(found, LATE), f"late.{table.name}", last)


def write_rows(layout: Layout, table: Table, result: Result, last: int) -> None:
    """Write a silver table; if it is empty, its key columns are texts."""
    rows = [
        {**{name: from_hashable(part) for name, part in zip(table.key, key, strict=True)}, **row}
        for key, row in result.tables[table.name].items()
    ]
    found = pa.Table.from_pylist(rows) if rows else pa.table({name: pa.array([], pa.string()) for name in table.key})
    _write(layout.silver(table.name), found, table.name, last)


def _write(path: str, rows: pa.Table, name: str, tick: int, by: list[str] | None = None) -> None:
    outcome = CommitProperties(
        custom_metadata={"userMetadata": commit_text(name, tick, VisibleCommit(from_tick=0, run="run", keys=1))},
        app_transactions=[Transaction(f"lakehouse.{name}", Progress(1, tick).version)],
    )
    write_deltalake(path, rows, mode="append", partition_by=by, commit_properties=outcome)
