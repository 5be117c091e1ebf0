"""Replay: records through an application on real Spark and Delta, without Kafka; an `Engine` like the model.

The records are written into a bronze of their own as the ticks that they carry, by the code that ingest uses; then the
tables take the ticks in by the code that the silver query uses. What comes out is read back from Delta.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta import bronze, changefeed
from lakehouse.delta.layout import Layout
from lakehouse.delta.silver import own_topics
from lakehouse.delta.silver_query import Silver
from lakehouse.plan.declare import App, Stream, Table
from lakehouse.plan.model import Result
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record

KAFKA_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, key binary, value binary"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SparkReplay:
    """The Spark engine. Every call replays into a folder of its own below `folder`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._calls = 0

    def __call__(self, app: App, records: list[Record], batches: Iterable[int] | None = None) -> Result:
        """Replay records; their ticks are those of bronze. `batches`: the ticks up to which the tables take them in, one
        after the other, each by a new writer; without it, tick by tick.
        """
        self._calls += 1
        layout = Layout(str(self._folder / f"replay-{self._calls}"))
        write_bronze(self._spark, layout, app, records)
        last = max((record.tick for record in records), default=0)
        null_keys = {table.name: 0 for table in app.tables}
        if batches is None:
            with Silver(self._spark, layout, app, lambda tick, count: None) as silver:
                for tick in range(1, last + 1):
                    silver.catch_up(tick)
        else:
            for tick in [*batches, last]:
                with Silver(self._spark, layout, app, lambda tick, count: None) as silver:
                    silver.catch_up(tick)
        return self._result(layout, app, last, null_keys)

    def _result(self, layout: Layout, app: App, last: int, null_keys: dict[str, int]) -> Result:
        own = own_topics(app)
        result = Result(null_keys=null_keys)
        for table in app.tables:
            rows = self._spark.read.format("delta").load(layout.silver(table.name))
            result.tables[table.name] = {key_of(table.key, row): value_of(table.key, row) for row in dicts(rows)}
            changes = changefeed.per_event(self._spark, layout, table, 0, last, own)
            result.changelogs[table.name] = [change_of(table.key, row) for row in dicts(changes)]
            result.null_keys[table.name] = _null_keys(self._spark, layout, table)
        for sink in app.sinks:
            if isinstance(sink.of, Stream):
                events = changefeed.stream_events(self._spark, layout, sink.of, 0, last, own)
                result.topics[sink.topic] = [change_of(sink.of.key, row) for row in dicts(events)]
            else:
                result.topics[sink.topic] = result.changelogs[sink.of.name]
        by_identity = {r.identity: r for r in _records_of(self._spark, layout, app)}
        for source in app.sources:
            bad = self._spark.read.format("delta").load(layout.quarantine(source.name)).orderBy("tick", "order_time", "offset")
            result.quarantine[source.name] = [
                (by_identity[row["topic_id"], row["partition"], row["offset"]], row["reason"]) for row in dicts(bad)
            ]
        return result
