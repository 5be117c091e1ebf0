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
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.properties import NEEDED, SKIP
from lakehouse.plan.app import named_window, read_window
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.schema import EPOCH, NAMED, Column, base_type
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark import streamed
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog import changefeed, stream_feed
from lakehouse.spark.changelog.net import net_changes
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.past import past, refold
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table import tables
from lakehouse.spark.table.input import begins, input_of
from lakehouse.spark.transaction import properties, table_id


def key_format(columns: tuple[Column, ...], beside: str = "json", given: str = "") -> str:
    """Return how a key of these columns is written: as a sink says, or as Kafka's primitive if it is one, else as JSON.

    beside: the format of the value; a key has its moments as that has them. given: the sink's format of keys. Where a
    key names a window it is JSON.
    """
    if given and columns[-1].name not in WINDOW_COLUMNS:
        return given
    simple = len(columns) == 1 and base_type(columns[0].type) in ("string", "int", "bigint", "double", "binary")
    return "kafka" if simple else "json" + "".join(part for part in (NAMED, EPOCH) if part in beside)


def columns_of(spark: SparkSession, of: Stream | Table) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the key and value columns of the published stream or table, with Spark's types."""
    frame = tables.empty_stream(spark, of).schema if isinstance(of, Stream) else tables.schema(spark, of)
    kinds = {field.name: field.dataType.simpleString() for field in frame}
    names = [c.name for c in of.columns] if isinstance(of, Stream) else [n for n in kinds if not n.startswith("_")]
    key = tuple(Column(name, kinds[name]) for name in of.key)
    return key, tuple(Column(name, kinds[name]) for name in names if name not in of.key)


def accumulators_of(spark: SparkSession, table: Table, *, kept: bool = False) -> tuple[Column, ...]:
    """Return the hidden columns without which a table can't go on, with Spark's types. kept: of a row of its state."""
    fields = tables.state_schema(spark, table) if kept else tables.schema(spark, table)
    kinds = {field.name: field.dataType.simpleString() for field in fields}
    return tuple(Column(name, kind) for name, kind in kinds.items() if _goes_along(name))


def _goes_along(name: str) -> bool:
    return name.startswith("_acc_") or name in ("_order", "_deleted")


def origin_of(lake: OpenLake, of: Stream | Table) -> str:
    """Return whose ticks are published: the lake's; a restored table has its own."""
    if isinstance(of, Table) and _held(lake, of) is not None:
        return table_id(lake.spark, lake.layout.silver(of.name))
    return table_id(lake.spark, lake.layout.records)


def _held(lake: OpenLake, of: Stream | Table) -> str | None:
    """Which offsets a restored table held from its beginning; None for a table made from bronze alone."""
    return lake.open(of).skip if isinstance(of, Table) else None


def next_offsets(lake: OpenLake, of: Stream | Table, tick: int) -> dict[str, dict[str, int]]:
    """Return a source's offsets after a tick, {topic id: {partition: offset}}; at least what a restored table held."""
    stream = of.stream if isinstance(of, Table) else of
    found: dict[str, dict[str, int]] = json.loads(_held(lake, of) or "{}")
    for topic in stream.topics:
        found = furthest(found, bronze.next_offsets(lake, topic, tick))
    return found


def needed_offsets(lake: OpenLake, of: Stream | Table, tick: int) -> dict[str, dict[str, int]] | None:
    """Return the offsets from which records can meet those after a tick, in joins of streams; 0 where nothing is said.

    None for what is behind no such join.
    """
    if not isinstance(of, Table) or not meetings(of.stream):
        return None
    opened = lake.open(of)
    begin = begins(input_of(opened), tick)
    known = properties(lake.spark, opened.visible.path) if opened.exists else {}
    if begin < NO_TICK:
        restored: dict[str, dict[str, int]] = json.loads(known.get(NEEDED, "{}"))
        return restored
    found: dict[str, dict[str, int]] = json.loads(known.get(SKIP, "{}"))
    for topic in of.stream.topics if begin > NO_TICK else ():
        found = furthest(found, bronze.next_offsets(lake, topic, begin))
    return found


def furthest(one: NextOffsets, other: NextOffsets) -> dict[str, dict[str, int]]:
    """Return the larger offset of each partition."""
    found = {topic_id: dict(of) for topic_id, of in one.items()}
    for topic_id, of in other.items():
        mine = found.setdefault(topic_id, {})
        for partition, offset in of.items():
            mine[partition] = max(offset, mine.get(partition, 0))
    return found


def clock_of(
    lake: OpenLake,
    of: Stream | Table,
    tick: int,
    since: tuple[int, Mapping[str, Any]] | None = None,
) -> dict[str, Any] | None:
    """Return a table's clock at a tick; None for a table without a clock, and for a stream.

    since: an earlier tick, with the clock at that tick.
    """
    clock = past.clock_at(lake.open(of), tick, since) if isinstance(of, Table) else None
    return None if clock is None else clock.metadata()


def records(
    lake: OpenLake,
    sink: Sink,
    after: int,
    to: int,
    origin: str,
    *,
    whole: bool = False,
    covered: NextOffsets | None = None,
    with_state: bool = False,
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the records that publish the ticks in (after, to], in position order, each with its tick.

    origin: whose ticks they are. whole: the rows that a restored table began with come first, for a topic that lacks
    them. covered: for a stream, the offsets up to which its records are in the topic already. with_state: the changes
    of all that the table keeps, too, for their own topic: those of a tick after its others.
    """
    seen = _seen(lake, sink, after, to, origin, whole=whole, covered=covered)
    if not with_state:
        yield from seen
        return
    kept = _kept(lake, sink, after, to, origin, whole=whole)
    with closing(seen), closing(kept):
        yield from heapq.merge(seen, kept, key=itemgetter(0))


def _seen(
    lake: OpenLake, sink: Sink, after: int, to: int, origin: str, *, whole: bool, covered: NextOffsets | None
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the records of the changelog, or of the stream, itself."""
    of = sink.of
    write = _Writer(lake.spark, sink, origin)
    if isinstance(of, Stream):
        frame = stream_feed.stream_events(lake, of, after, to, sink.partition_by, json.dumps(covered or {}))
    elif sink.mode == "net":
        frame = net_changes(lake.open(of), after, to, ticks=True)
    else:
        frame = changefeed.per_event(lake.open(of), after, to)
    if whole and isinstance(of, Table):
        yield from _begun(lake.open(of), after, write, kept=False)
    tick = after
    with closing(streamed.rows(frame)) as changes:
        for row in changes:
            # Net changes are ordered by their commits: their rows' positions may be from any earlier tick.
            # Rows that a table above was restored with have ticks before the first one.
            tick = (row["_tick"] or tick) if sink.mode == "net" else max(after, row["_position"]["tick"])
            yield tick, write(row)


def _kept(
    lake: OpenLake, sink: Sink, after: int, to: int, origin: str, *, whole: bool
) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the changes of all that the table keeps."""
    assert isinstance(sink.of, Table)
    opened, write = lake.open(sink.of), _Writer(lake.spark, sink, origin, kept=True)
    if whole:
        yield from _begun(opened, after, write, kept=True)
    with closing(streamed.rows(changefeed.per_event(opened, after, to, kept=True))) as changes:
        for row in changes:
            yield max(after, row["_position"]["tick"]), write(row)


def _begun(opened: OpenTable, tick: int, write: _Writer, *, kept: bool) -> Generator[tuple[int, ProducerRecord]]:
    """Yield the rows that a restored table began with, as records of a tick; none if it was built from bronze."""
    if (began := _beginning(opened, kept=kept)) is not None:
        with closing(streamed.rows(began)) as rows:
            yield from ((tick, write(row)) for row in rows)


def _beginning(opened: OpenTable, *, kept: bool) -> DataFrame | None:
    """Return the rows that a restored table began with as changes, in position order; None if built from bronze.

    kept: all that it kept then, and not only what was visible.
    """
    if (rows := refold.beginning(opened)) is None:
        return None
    if opened.table.has_state and not kept:
        rows = Past(opened).visible(Cut(NO_TICK))
    names = [name for name in rows.columns if not name.startswith("_") or _goes_along(name)]
    made = rows.withColumns({"_tombstone": F.lit(False), "_event_time_ms": F.unix_millis("_event_time")})
    return made.orderBy("_position", *opened.table.key).select(*names, *changefeed.CHANGE_COLUMNS)


def rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a frame's rows as dicts. Through Arrow: a Row's timestamps would lose their zone."""
    for batch in frame.toArrow().to_batches(max_chunksize=10_000):
        yield from batch.to_pylist(maps_as_pydicts="strict")


class _Writer:
    """Turns changes into records: the key, the value or a tombstone, and in the headers what a restore needs."""

    def __init__(self, spark: SparkSession, sink: Sink, origin: str, *, kept: bool = False) -> None:
        """kept: for the topic of all that the table keeps, which has a format of its own."""
        of = sink.of
        self._record = StateRecord if kept else ProducerRecord
        self._formats = ["json", ""] if kept else [sink.format, sink.key_format]
        self._format = self._formats[0]
        self._origin = f"{origin}/{of.name if isinstance(of, Table) else ''}".encode()
        self._key, self._value = columns_of(spark, of)
        self._kept_by_table = isinstance(of, Table)
        self._kept = () if isinstance(of, Stream) else accumulators_of(spark, of, kept=kept)
        windowed = (named_window(of) if isinstance(of, Table) else read_window(of)) is not None
        # The windows of one key stay in its partition.
        self._placed_by = self._key[: -len(WINDOW_COLUMNS)] if windowed else None
        self._key_format = key_format(self._key, *self._formats)

    def __call__(self, row: dict[str, Any]) -> ProducerRecord:
        headers: list[tuple[str, bytes | None]] = [
            (POSITION, json.dumps(list(row["_position"].values())).encode()),
            (EVENT_TIME, str(row["_event_time_ms"]).encode()),
            (ORIGIN, self._origin),
        ]
        if self._formats != ["json", ""] and self._kept_by_table:
            headers.append((FORMAT, json.dumps(self._formats).encode()))
        if self._kept and not row["_tombstone"]:
            headers.append((ACCUMULATORS, encode_value("json", self._kept, row)))
        key = None if row.get("_null_key") else encode_key(self._key_format, self._key, row)
        value = None if row["_tombstone"] else encode_value(self._format, self._value, row)
        place: bytes | int | None = row.get("_place")
        if self._placed_by is not None and place is None:
            place = encode_key(key_format(self._placed_by, *self._formats), self._placed_by, row)
        return self._record(key, value, row["_event_time_ms"], tuple(headers), place=place)
