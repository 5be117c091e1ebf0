"""Replay: records through an application on real Spark and Delta, without Kafka; an `Engine` like the model.

It writes the records into a bronze of their own, at the ticks that they carry, by the code of ingest; then the tables
take in the ticks by the code of the silver query. It reads the results back from Delta.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.formats.decode import find_declared
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.model.event import LateRecord, to_hashable
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.epoch_time import to_datetime, to_milliseconds
from lakehouse.semantics.position import Identity, Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.window import Span
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.tick import append_tick
from lakehouse.spark.changelog import changefeed, published, stream_feed
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.query import Silver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KAFKA_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, key binary, value binary"
)


class SparkReplay:
    """The Spark engine. Every call replays into a folder of its own below `folder`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._calls = 0

    def __call__(self, app: App, records: list[Record], batches: Iterable[int] | None = None) -> Result:
        """Replay records, whose ticks become those of bronze.

        batches: the ticks up to which the tables take in the records, each by a new writer, as after a restart. Without
        it one writer takes in tick by tick.
        """
        ticks = sorted({record.tick for record in records})
        return self._run(app, records, [ticks] if batches is None else [[tick] for tick in (*batches, *ticks[-1:])])

    def in_batches(self, app: App, records: list[Record], ends: list[int]) -> Result:
        """Replay records with one writer; it takes in all ticks up to each of the ends at once."""
        return self._run(app, records, [ends])

    def _run(self, app: App, records: list[Record], writers: Iterable[Iterable[int]]) -> Result:
        """Run a writer for each list of ticks; it takes in the records up to each tick of its list."""
        app = app.with_upstream
        self._calls += 1
        lake = open_lake(self._spark, Layout(str(self._folder / f"replay-{self._calls}")))
        last = write_bronze(lake, app, records)
        for ticks in writers:
            with Silver(lake, app, lambda tick, count: None, stops_run=False) as silver:
                for tick in ticks:
                    silver.catch_up(tick)
        return read_result(lake, app, records, last)


def write_bronze(lake: OpenLake, app: App, records: Iterable[Record]) -> int:
    """Write records into bronze, one commit a tick; return the last tick. Records already there stay before them."""
    owned_topics = app.own_topics
    bronze.create_tables(lake, owned_topics)
    bronze_state = bronze.open_bronze_epoch(lake)
    ordered_records = sorted(records, key=lambda record: (record.tick, record.topic, record.partition, record.offset))
    known_topics = {
        topic: topic_state
        for topic, topic_state in bronze_state.topics.items()
        if topic_state.id in {r.topic_id for r in ordered_records}
    }
    new_topics = {record.topic: TopicState(record.topic_id) for record in ordered_records}
    bronze_state = replace(bronze_state, topics={**bronze_state.topics, **new_topics, **known_topics})
    for tick, group in groupby(ordered_records, key=lambda record: record.tick):
        tick_records = list(group)
        recreated_topics = {
            record.topic: record.topic_id
            for record in tick_records
            if bronze_state.topics[record.topic].id != record.topic_id
        }
        bronze_state = replace(
            bronze_state,
            topics={
                **bronze_state.topics,
                **{topic_name: TopicState(topic_id) for topic_name, topic_id in recreated_topics.items()},
            },
        )
        next_offsets: dict[str, dict[int, int]] = {}
        for record in tick_records:
            next_offsets.setdefault(record.topic, {})[record.partition] = record.offset + 1
        tick_frame = lake.spark.createDataFrame([_kafka_row(record) for record in tick_records], KAFKA_SCHEMA).coalesce(
            1
        )
        bronze_state, _ = append_tick(tick_frame, lake.layout, bronze_state, next_offsets, "replay", owned_topics)
        if bronze_state.tick != tick:
            raise ValueError(
                f"tick {tick} follows tick {bronze_state.tick - 1}: expected ticks from 1 on, without a hole"
            )
    keep_declared(lake.schemas, app, bronze_state.tick)
    return bronze_state.tick


def keep_declared(schemas: LakeSchemas, app: App, tick: int) -> None:
    """Keep in a lake the schemas by which tests write an application's records, up to a tick."""
    find_schemas = find_declared(app.sources)
    for source in app.sources:
        for part_name in source.registered_parts:
            schemas.keep(source.topic, {part_name: find_schemas(source.topic, part_name)}, tick)


def _kafka_row(record: Record) -> tuple[Any, ...]:
    headers = [*record.headers] or None
    place = (record.topic, record.partition, record.offset)
    return (*place, to_datetime(record.timestamp), record.timestamp_type, headers, record.key, record.value)


def read_result(lake: OpenLake, app: App, records: Iterable[Record], last: int) -> Result:
    """Read an application's results for its records up to tick `last`, in the model's form."""
    result = Result()
    for table in app.tables:
        table_rows = reader.open_dataset(lake.layout.silver(table.name)).to_table().to_pylist(maps_as_pydicts="strict")
        result.tables[table.name] = rows_of(table, table_rows)
        result.changelogs[table.name] = []
        if not table.is_history:
            changes = changefeed.per_event(lake.open(table), 0, last)
            result.changelogs[table.name] = [_row_to_change(table.key, row) for row in published.rows_of_frame(changes)]
        own_commits = lake.commits(lake.open(table).state)
        result.null_keys[table.name] = sum(commit.batch.counts.null_keys for commit in own_commits if commit.batch)
    for sink in app.sinks:
        if isinstance(sink.source, Stream):
            events = stream_feed.stream_events(lake, sink.source, 0, last)
            result.topics[sink.topic] = [
                _row_to_change(sink.source.key, row) for row in published.rows_of_frame(events)
            ]
        else:
            result.topics[sink.topic] = result.changelogs[sink.source.name]
    by_identity = {record.identity: record for record in records}
    for table in app.tables:
        result.late[table.name] = _read_late(lake.layout, table, by_identity)
    for source in app.sources:
        quarantine_rows = reader.open_dataset(lake.layout.quarantine(source.name)).to_table().to_pylist()
        quarantined_records = [
            (by_identity[Identity(r["topic_id"], r["partition"], r["offset"])], r["reason"]) for r in quarantine_rows
        ]
        result.quarantine[source.name] = sorted(quarantined_records, key=lambda pair: pair[0].position)
    return result


def rows_of(table: Table, rows: Iterable[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """Return a table's rows in the model's form: by key, without hidden columns."""
    return {_hashable_key(table.key, row): _visible_value(table.key, row) for row in rows}


def _read_late(layout: Layout, table: Table, by_identity: dict[Identity, Record]) -> list[LateRecord]:
    """Return the late records in position order, and several of one record in the order of their windows."""
    if not Path(layout.late(table.name)).exists():
        return []
    records_by_place = {(r.tick, r.topic, r.partition, r.offset): r for r in by_identity.values()}
    late_records = []
    for row in reader.open_dataset(layout.late(table.name)).to_table().to_pylist():
        record = records_by_place[row["tick"], row["topic"], row["partition"], row["offset"]]
        is_windowed = row["window_start"] is not None
        span = Span(to_milliseconds(row["window_start"]), to_milliseconds(row["window_end"])) if is_windowed else None
        late_records.append(
            LateRecord(record.identity, record.position._replace(ordinals=tuple(row["ordinals"])), span)
        )
    return sorted(late_records, key=lambda late: (late.position, late.span or ()))


def _hashable_key(names: tuple[str, ...], row: dict[str, Any]) -> Key:
    return tuple(to_hashable(row[name]) for name in names)


def _visible_value(key: tuple[str, ...], row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in key and not name.startswith("_")}


def _row_to_change(key: tuple[str, ...], row: dict[str, Any]) -> Change:
    value = None if row["_tombstone"] else _visible_value(key, row)
    position = Position.from_fields(row["_position"])
    return Change(None if row.get("_null_key") else _hashable_key(key, row), value, row["_event_time_ms"], position)
