"""Changes as records for Kafka: key, value or tombstone, and in the headers what another lake needs to go on."""

from __future__ import annotations

import heapq
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.kafka.covers import NextOffsets
from lakehouse.kafka.headers import ACCUMULATORS, EVENT_TIME, FORMAT, ORIGIN, POSITION
from lakehouse.kafka.produce import ProducerRecord, StateRecord
from lakehouse.lake.commit_log import find_tick_commit
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.properties import NEEDED, SKIP
from lakehouse.plan.app import named_window, read_window
from lakehouse.plan.expression.schema import Column, base_type
from lakehouse.plan.names.format_traits import JSON, KAFKA, TRAITS
from lakehouse.plan.names.record_format import USUAL_FORMATS, RecordFormat, parse_format
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark import driver_rows
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog import changefeed, stream_feed
from lakehouse.spark.changelog.net import net_changes
from lakehouse.spark.history import refold, table_clock
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.table import tables
from lakehouse.spark.table.input import input_of, last_unneeded_tick
from lakehouse.spark.transaction import commit_log_of, read_properties, table_id


def key_format(columns: tuple[Column, ...], value_format: str, sink_format: str) -> str:
    """Return the format of a key of these columns: the sink's, or Kafka's primitive if it is one, else JSON.

    value_format: the key writes timestamps as the value does. sink_format: the sink's format of keys, if it names one.
    A key that names a window is JSON.
    """
    if sink_format and columns[-1].name not in WINDOW_COLUMNS:
        return sink_format
    if TRAITS[KAFKA].holds([base_type(column.type) for column in columns]):
        return KAFKA
    as_value = parse_format(value_format)
    return str(RecordFormat(JSON, "", as_value.is_named, as_value.has_number_moments))


def written_key_formats(spark: SparkSession, sink: Sink) -> tuple[str, ...]:
    """Return the formats that decide on the bytes and partitions of a table's keys, as `Cover.key_formats` has them.

    None for a stream: each of its records stays. The topic of a table's state is always written in the usual formats.
    """
    if isinstance(sink.source, Stream):
        return ()
    key_columns, _ = published_columns(spark, sink.source)
    partition_columns = _partition_columns(sink.source, key_columns)
    return tuple(
        key_format(columns, sink.format, sink.key_format)
        for columns in (key_columns, partition_columns)
        if columns is not None
    )


def _partition_columns(subject: Stream | Table, key_columns: tuple[Column, ...]) -> tuple[Column, ...] | None:
    """Return the key's columns without its window: the windows of one key stay in its partition. None without one."""
    window = named_window(subject) if isinstance(subject, Table) else read_window(subject)
    return None if window is None else key_columns[: -len(WINDOW_COLUMNS)]


def published_columns(spark: SparkSession, subject: Stream | Table) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the key and value columns of the published stream or table, with Spark's types."""
    schema = (
        tables.empty_stream(spark, subject).schema
        if isinstance(subject, Stream)
        else tables.visible_schema(spark, subject)
    )
    column_types = {field.name: field.dataType.simpleString() for field in schema}
    column_names = (
        [c.name for c in subject.columns]
        if isinstance(subject, Stream)
        else [n for n in column_types if not n.startswith("_")]
    )
    key_columns = tuple(Column(name, column_types[name]) for name in subject.key)
    return key_columns, tuple(Column(name, column_types[name]) for name in column_names if name not in subject.key)


def accumulators_of(spark: SparkSession, table: Table, *, of_state: bool = False) -> tuple[Column, ...]:
    """Return the hidden columns without which a table can't go on, with Spark's types. of_state: those of its state."""
    fields = tables.state_schema(spark, table) if of_state else tables.visible_schema(spark, table)
    column_types = {field.name: field.dataType.simpleString() for field in fields}
    return tuple(Column(name, column_type) for name, column_type in column_types.items() if _is_needed_and_hidden(name))


def _is_needed_and_hidden(name: str) -> bool:
    return name.startswith("_") and name not in ("_event_time", "_position")


def origin_of(lake: OpenLake, subject: Stream | Table) -> str:
    """Return whose ticks are published: the id of the lake's bronze, or a restored table's own."""
    if isinstance(subject, Table) and _restored_offsets(lake, subject) is not None:
        return table_id(lake.spark, lake.layout.silver(subject.name))
    return table_id(lake.spark, lake.layout.records)


def _restored_offsets(lake: OpenLake, subject: Stream | Table) -> str | None:
    """Return the offsets that a restored table held from its beginning; None for a table made from bronze alone."""
    return lake.open(subject).read_skipped_offsets() if isinstance(subject, Table) else None


def next_offsets(lake: OpenLake, subject: Stream | Table, tick: int) -> dict[str, dict[str, int]]:
    """Return a source's offsets after a tick, {topic id: {partition: offset}}; at least what a restored table held."""
    stream = subject.stream if isinstance(subject, Table) else subject
    offsets: dict[str, dict[str, int]] = json.loads(_restored_offsets(lake, subject) or "{}")
    for topic in stream.topics:
        offsets = furthest_offsets(offsets, bronze.next_offsets(lake, topic, tick))
    return offsets


def tick_nonce(lake: OpenLake, tick: int) -> str | None:
    """Return the nonce of the commit that ends a tick in bronze; None if bronze's log does not have it, or no longer.

    A copy of a lake that goes on by itself has the same ticks, but none of the same nonces from then on.
    """
    commit = find_tick_commit(commit_log_of(lake.spark, lake.layout.records), tick)
    return None if commit is None or commit.metadata is None else commit.metadata.number.nonce


def needed_offsets(lake: OpenLake, subject: Stream | Table, tick: int) -> dict[str, dict[str, int]] | None:
    """Return the offsets from which records can meet those after a tick, in joins of streams; 0 for one not listed.

    None for a stream, and for a table behind no such join.
    """
    if not isinstance(subject, Table) or not meeting_streams(subject.stream):
        return None
    open_table = lake.open(subject)
    begin_tick = last_unneeded_tick(input_of(open_table), tick)
    table_properties = read_properties(lake.spark, open_table.visible.path) if open_table.table_exists() else {}
    if begin_tick < NO_TICK:
        restored: dict[str, dict[str, int]] = json.loads(table_properties.get(NEEDED, "{}"))
        return restored
    offsets: dict[str, dict[str, int]] = json.loads(table_properties.get(SKIP, "{}"))
    for topic in subject.stream.topics if begin_tick > NO_TICK else ():
        offsets = furthest_offsets(offsets, bronze.next_offsets(lake, topic, begin_tick))
    return offsets


def furthest_offsets(left: NextOffsets, right: NextOffsets) -> dict[str, dict[str, int]]:
    """Return the larger offset of each partition."""
    offsets = {topic_id: dict(partition_offsets) for topic_id, partition_offsets in left.items()}
    for topic_id, partition_offsets in right.items():
        topic_offsets = offsets.setdefault(topic_id, {})
        for partition, offset in partition_offsets.items():
            topic_offsets[partition] = max(offset, topic_offsets.get(partition, 0))
    return offsets


def clock_of(
    lake: OpenLake,
    subject: Stream | Table,
    tick: int,
    known_clock: tuple[int, Mapping[str, Any]] | None = None,
) -> dict[str, Any] | None:
    """Return a table's clock at a tick; None for a table without a clock, and for a stream.

    known_clock: an earlier tick, with the clock at that tick.
    """
    clock = table_clock.clock_at(lake.open(subject), tick, known_clock) if isinstance(subject, Table) else None
    return None if clock is None else clock.plain()


def producer_records(
    lake: OpenLake,
    sink: Sink,
    after_tick: int,
    to_tick: int,
    origin: str,
    *,
    whole: bool = False,
    covered: NextOffsets | None = None,
    with_state: bool = False,
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the records that publish the ticks in (after_tick, to_tick], in position order, each with its tick.

    origin: whose ticks they are. whole: first the rows with which a restored table began, for a topic that lacks them.
    covered: for a stream, the offsets up to which its records are in the topic already. with_state: also the changes of
    all that the table keeps, for their own topic: in each tick after the others.
    """
    visible_records = _visible_records(lake, sink, after_tick, to_tick, origin, whole=whole, covered=covered)
    if not with_state:
        yield from visible_records
        return
    state_records = _state_records(lake, sink, after_tick, to_tick, origin, whole=whole)
    with closing(visible_records), closing(state_records):
        yield from heapq.merge(visible_records, state_records, key=itemgetter(0))


def _visible_records(
    lake: OpenLake, sink: Sink, after_tick: int, to_tick: int, origin: str, *, whole: bool, covered: NextOffsets | None
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the records of the changelog, or of the stream, itself."""
    subject = sink.source
    encode_record = _RecordEncoder(lake.spark, sink, origin)
    if isinstance(subject, Stream):
        frame = stream_feed.stream_events(
            lake, subject, after_tick, to_tick, sink.partition_by, json.dumps(covered or {})
        )
    elif sink.mode == "net":
        frame = net_changes(lake.open(subject), after_tick, to_tick, ticks=True)
    else:
        frame = changefeed.per_event(lake.open(subject), after_tick, to_tick)
    if whole and isinstance(subject, Table):
        yield from _restored_records(lake.open(subject), after_tick, encode_record, of_state=False)
    tick = after_tick
    with closing(driver_rows.stream_rows(frame)) as changes:
        for row in changes:
            # Net changes are ordered by their commits: their rows' positions may be from any earlier tick.
            # Rows with which a table above was restored have ticks before the first one.
            tick = (row["_tick"] or tick) if sink.mode == "net" else max(after_tick, row["_position"]["tick"])
            yield tick, encode_record(row)


def _state_records(
    lake: OpenLake, sink: Sink, after_tick: int, to_tick: int, origin: str, *, whole: bool
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the changes of all that the table keeps."""
    assert isinstance(sink.source, Table)
    open_table, encode_record = lake.open(sink.source), _RecordEncoder(lake.spark, sink, origin, of_state=True)
    if whole:
        yield from _restored_records(open_table, after_tick, encode_record, of_state=True)
    with closing(
        driver_rows.stream_rows(changefeed.per_event(open_table, after_tick, to_tick, of_state=True))
    ) as changes:
        for row in changes:
            yield max(after_tick, row["_position"]["tick"]), encode_record(row)


def _restored_records(
    open_table: OpenTable, tick: int, encode_record: _RecordEncoder, *, of_state: bool
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the rows with which a restored table began, as records of a tick; none if it was built from bronze."""
    if (restored_changes := _restored_changes(open_table, of_state=of_state)) is not None:
        with closing(driver_rows.stream_rows(restored_changes)) as rows:
            yield from ((tick, encode_record(row)) for row in rows)


def _restored_changes(open_table: OpenTable, *, of_state: bool) -> DataFrame | None:
    """Return the rows with which a restored table began as changes, in position order; None if built from bronze.

    kept: all rows that it kept then, not only the visible ones.
    """
    if (rows := refold.restored_rows(open_table)) is None:
        return None
    if open_table.table.has_state and not of_state:
        rows = Past(open_table).visible_rows(Cut(NO_TICK))
    column_names = [name for name in rows.columns if not name.startswith("_") or _is_needed_and_hidden(name)]
    changes = rows.withColumns({"_tombstone": F.lit(False), "_event_time_ms": F.unix_millis("_event_time")})
    return changes.orderBy("_position", *open_table.table.key).select(*column_names, *changefeed.CHANGE_COLUMNS)


def rows_of_frame(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a frame's rows as dicts. Through Arrow: a Row's timestamps would lose their zone."""
    for batch in frame.toArrow().to_batches(max_chunksize=10_000):
        yield from batch.to_pylist(maps_as_pydicts="strict")


class _RecordEncoder:
    """Turns changes into records: the key, the value or a tombstone, and in the headers what a restore needs."""

    def __init__(self, spark: SparkSession, sink: Sink, origin: str, *, of_state: bool = False) -> None:
        """of_state: write for the topic of all that the table keeps, which has a format of its own."""
        subject = sink.source
        self._record = StateRecord if of_state else ProducerRecord
        self._formats = USUAL_FORMATS if of_state else (sink.format, sink.key_format)
        self._format = self._formats[0]
        self._origin = f"{origin}/{subject.name if isinstance(subject, Table) else ''}".encode()
        self._key, self._value = published_columns(spark, subject)
        self._is_table = isinstance(subject, Table)
        self._accumulators = () if isinstance(subject, Stream) else accumulators_of(spark, subject, of_state=of_state)
        self._partition_key = _partition_columns(subject, self._key)
        self._key_format = key_format(self._key, *self._formats)

    def __call__(self, row: dict[str, Any]) -> ProducerRecord:
        headers: list[tuple[str, bytes | None]] = [
            (POSITION, json.dumps(list(row["_position"].values())).encode()),
            (EVENT_TIME, str(row["_event_time_ms"]).encode()),
            (ORIGIN, self._origin),
        ]
        if self._formats != USUAL_FORMATS and self._is_table:
            headers.append((FORMAT, json.dumps(self._formats).encode()))
        if self._accumulators and not row["_tombstone"]:
            headers.append((ACCUMULATORS, encode_value("json", self._accumulators, row)))
        key = None if row.get("_null_key") else encode_key(self._key_format, self._key, row)
        value = None if row["_tombstone"] else encode_value(self._format, self._value, row)
        record_place: bytes | int | None = row.get("_place")
        if self._partition_key is not None and record_place is None:
            record_place = encode_key(key_format(self._partition_key, *self._formats), self._partition_key, row)
        return self._record(key, value, row["_event_time_ms"], tuple(headers), place=record_place)
