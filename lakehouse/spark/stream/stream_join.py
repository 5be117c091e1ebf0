"""Joins streams with streams on Spark: their records between two ticks, and the records before that may still matter.

The rule is `lakehouse.semantics.operators.stream_join`, in the order of positions; tests compare this form with it.
Each record gets the position at which it closes: that of the first record of its partition (by number, of both streams)
that moves stream time past the end of its window and the grace. A pair then comes out with the later of its records, if
that came before the earlier one closed; a padded row comes out with the record that closed it.

    _now      stream time of the record's partition, with the record
    _too_late whether the record was closed when it came, in this batch
    _closes   where the record closes: struct(place, topic_id, rowpartition, rowoffset); null if nothing has closed it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple, Protocol

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.operators.stream_join import JoinSide
from lakehouse.spark.expression.arrow_functions import literal_map
from lakehouse.spark.stream.step import era_of, merged_position, numbered_position

# The rows that come with one record, in order: of windows that it closes, of its partners, its own without a partner.
CLOSED, MET, ALONE = range(3)
MOVER, RECORD = range(2)
CLOSING = ("_value", "_kind", "_mover", "_first", "_now", "_moved", "_era", "_in")
NAMES = {JoinSide.LEFT: "_left", JoinSide.RIGHT: "_right"}


class StreamTimes(NamedTuple):
    """The stream times of a join after a tick, in milliseconds, by era and number of the partition: "0/3"."""

    tick: int
    times: Mapping[str, int]


# Before the covered records of a restored table, which are in tick `NO_TICK`.
BEGINNING = StreamTimes(NO_TICK - 1, {})


class EarlierRecords(Protocol):
    """The records before the batch that joins of streams may need, up to `last_tick`."""

    last_tick: int

    def find_start_times(self, join: StreamJoin) -> StreamTimes:
        """Return the stream times of a join after the last tick whose records can't matter in the batch any more."""

    def records(self, stream: Stream, since: int) -> DataFrame:
        """Return a stream's records of the ticks after `since`, up to `last_tick`."""


def join_streams(
    join: StreamJoin,
    stream_frames: Sequence[DataFrame],
    earlier_records: EarlierRecords | None,
    hold_rows: Callable[[DataFrame], DataFrame],
    era_ticks: Sequence[int] = (),
    forced_places: DataFrame | None = None,
) -> DataFrame:
    """Return the records of a join that come with records of a batch, in the form of a stream's frame.

    stream_frames: the records of both streams in the batch. earlier_records: those before it; None if there are none.
    hold_rows: keeps rows in memory that are read several times. era_ticks: when the eras of its topics begin.
    forced_places: those of late records that an intervention took in after all, each with its tick `at`: such a record
    meets all records that had come by then.
    """
    last_tick, start_times = BEGINNING.tick, BEGINNING
    if earlier_records is not None:
        last_tick, start_times = earlier_records.last_tick, earlier_records.find_start_times(join)
        earlier_frames = [earlier_records.records(stream, start_times.tick) for stream in join.parts]
        stream_frames = [
            records.unionByName(earlier_frame)
            for records, earlier_frame in zip(stream_frames, earlier_frames, strict=True)
        ]
    left_side, right_side = (
        _side_frame(join, side, records) for side, records in zip(JoinSide, stream_frames, strict=True)
    )
    all_records = left_side.unionByName(right_side, allowMissingColumns=True).withColumn(
        "_era", era_of(era_ticks, F.col("_place.place.tick"))
    )
    closing_records = _with_closing_place(_with_stream_time(all_records, start_times.times), len(era_ticks))
    # A restored table's changelog has already counted the records that it covers, in tick 0.
    is_new = F.col("_place.place.tick") > max(last_tick, NO_TICK)
    closing_records = closing_records.withColumn("_too_late", F.col("_late") & F.col("_meets") & is_new)
    closing_records = hold_rows(_with_forced(closing_records, forced_places))
    meeting_by_side = {
        side: closing_records.where((F.col("_side") == int(side)) & F.col("_meets")) for side in JoinSide
    }
    pairs = _meeting_pairs(join, meeting_by_side[JoinSide.LEFT], meeting_by_side[JoinSide.RIGHT])
    row_frames = [pairs.drop("_met_left", "_met_right")]  # with the columns of both sides, even if no side is padded
    row_frames += [
        side_rows
        for side in join.unmatched_sides
        for side_rows in _padded_rows(join, side, meeting_by_side[side], closing_records, pairs)
    ]
    joined_rows = reduce(lambda first, second: first.unionByName(second, allowMissingColumns=True), row_frames)
    joined_rows = joined_rows.where(F.col("_at.place.tick") > last_tick)
    place_order = Window.partitionBy("_at.place").orderBy("_phase", "_item")
    joined_rows = joined_rows.withColumn("_number", F.row_number().over(place_order) - 1)
    return _to_stream_frame(join, joined_rows)


def _side_frame(join: StreamJoin, side: JoinSide, records: DataFrame) -> DataFrame:
    """Return one stream's records in the form that both streams share."""
    stream, spans = join.parts[side], join.within
    record_time = F.col("rowtime")
    ordered_records = records.withColumn("_position", merged_position(int(side)))
    record_place = F.struct(
        F.col("_position").alias("place"), F.col("_topic_id").alias("topic_id"), "rowpartition", "rowoffset"
    )
    key_columns = [F.col(name).alias(f"_key_{number}") for number, name in enumerate(stream.key)]
    return ordered_records.select(
        *key_columns,
        F.lit(int(side)).alias("_side"),
        record_time.alias("_time"),
        F.col("_position.partition").alias("_part"),
        record_place.alias("_place"),
        (~F.col("_tombstone") & ~F.col("_null_key")).alias("_meets"),
        (~F.col("_tombstone") & F.col("_null_key")).alias("_null_key"),
        (record_time + F.lit(spans.closing_time(side, 0))).alias("_limit"),
        F.struct(*[column.name for column in stream.columns]).alias(NAMES[side]),
    )


def _with_stream_time(records: DataFrame, start_times: Mapping[str, int]) -> DataFrame:
    """Give the records `_now`, and `_moved`: whether the record moves stream time."""
    partition_window = Window.partitionBy("_part", "_era").orderBy("_place.place")
    first_time = F.element_at(
        literal_map(start_times, "bigint"), F.concat_ws("/", F.col("_era").cast("string"), F.col("_part"))
    )
    records = records.withColumn("_now", F.greatest(first_time, F.max("_time").over(partition_window)))
    time_before = F.coalesce(F.lag("_now").over(partition_window), first_time)
    return records.withColumn("_moved", time_before.isNull() | (F.col("_now") > time_before))


def _with_closing_place(timed_records: DataFrame, last_era: int) -> DataFrame:
    """Give the records `_closes`: the place of the first record that moves stream time past their limit.

    A record that comes when stream time is past its limit closes at its own place.
    """
    # From the largest time down, the last mover before a record is the first past its limit. A mover is there twice.
    row_kinds = F.when(F.col("_moved"), F.array(F.lit(MOVER), F.lit(RECORD))).otherwise(F.array(F.lit(RECORD)))
    rows = timed_records.select("*", F.explode(row_kinds).alias("_kind"))
    is_mover = F.col("_kind") == MOVER
    # In a new era stream time starts over: a record that is still open can be closed in each of the later eras.
    later_eras = F.sequence("_era", F.lit(last_era)) if last_era else F.array("_era")
    rows = rows.withColumn("_in", F.explode(F.when(is_mover, F.array("_era")).otherwise(later_eras)))
    value, mover = F.when(is_mover, F.col("_now")).otherwise(F.col("_limit")), F.when(is_mover, F.col("_place"))
    rows = rows.withColumns({"_value": value, "_mover": mover})
    downwards = Window.partitionBy("_part", "_in").orderBy(F.col("_value").desc(), F.col("_kind").desc())
    downwards = downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    closing_records = rows.withColumn("_first", F.last("_mover", ignorenulls=True).over(downwards)).where(~is_mover)
    if last_era:
        closing_records = closing_records.withColumn("_first", F.min("_first").over(Window.partitionBy("_place.place")))
        closing_records = closing_records.where(F.col("_in") == F.col("_era"))
    closing_records = closing_records.withColumn("_late", F.col("_now") > F.col("_limit"))
    closing_place = F.when(F.col("_late"), F.col("_place")).otherwise(F.col("_first"))
    return closing_records.withColumn("_closes", closing_place).drop(*CLOSING)


def _meeting_pairs(join: StreamJoin, left_side: DataFrame, right_side: DataFrame) -> DataFrame:
    """Return the pairs that meet: both rows, their time, and the place of the later record."""
    spans, key_count = join.within, len(join.left.key)
    # Compare records with those of the same stretch of time, not with all of their key.
    stretch_size = max(spans.before + spans.after, 1)
    stretches = [F.floor((F.col("_time") + shift) / stretch_size) for shift in (-spans.before, spans.after)]
    left_records = left_side.withColumn("_stretch", F.explode(F.array_distinct(F.array(*stretches)))).alias("l")
    right_records = right_side.withColumn("_stretch", F.floor(F.col("_time") / stretch_size)).alias("r")
    same_key = [F.col(f"l._key_{key}").eqNullSafe(F.col(f"r._key_{key}")) for key in range(key_count)]
    is_near = F.col("r._time").between(F.col("l._time") - spans.before, F.col("l._time") + spans.after)
    left_is_first = F.col("l._place.place") < F.col("r._place.place")
    is_open = F.when(left_is_first, _is_open("l", "r")).otherwise(_is_open("r", "l"))
    is_open |= _was_taken_in("l", "r") | _was_taken_in("r", "l")
    condition = reduce(and_, [*same_key, F.col("l._stretch") == F.col("r._stretch"), is_near, is_open])
    later_place, earlier_place = (
        F.when(left_is_first, F.col(f"{a}._place")).otherwise(F.col(f"{b}._place")) for a, b in ("rl", "lr")
    )
    earlier_time = F.when(left_is_first, F.col("l._time")).otherwise(F.col("r._time"))
    order_item = F.struct(
        earlier_time.alias("time"), F.lit(0).alias("side"), earlier_place.getField("place").alias("place")
    )
    return left_records.join(right_records, condition).select(
        later_place.alias("_at"),
        F.lit(MET).alias("_phase"),
        order_item.alias("_item"),
        F.greatest("l._time", "r._time").alias("_time"),
        F.lit(False).alias("_null_key"),
        "l._left",
        "r._right",
        F.col("l._place.place").alias("_met_left"),
        F.col("r._place.place").alias("_met_right"),
    )


def _is_open(earlier: str, later: str) -> Column:
    closing_place = F.col(f"{earlier}._closes")
    return closing_place.isNull() | (closing_place.getField("place") > F.col(f"{later}._place.place"))


def _was_taken_in(late_alias: str, present_alias: str) -> Column:
    """Return whether an intervention took in the late record after the present record had come."""
    return F.coalesce(F.col(f"{late_alias}._forced") > F.col(f"{present_alias}._place.place.tick"), F.lit(False))


def _with_forced(records: DataFrame, forced_places: DataFrame | None) -> DataFrame:
    """Give the records `_forced`, the tick at which an intervention took them in after all; null for all others."""
    if forced_places is None:
        return records.withColumn("_forced", F.lit(None).cast("bigint"))
    place_fields = ("tick", "topic", "partition", "offset", "ordinals")
    first_ticks = forced_places.groupBy(*place_fields).agg(F.min("at").alias("_forced"))
    same_place = [F.col(f"k._place.place.{name}") == F.col(f"p.{name}") for name in place_fields]
    return records.alias("k").join(F.broadcast(first_ticks).alias("p"), same_place, "left").select("k.*", "p._forced")


def _padded_rows(
    join: StreamJoin, side: JoinSide, meeting_records: DataFrame, closing_records: DataFrame, pairs: DataFrame
) -> list[DataFrame]:
    """Return the padded rows of one side."""
    met_place = F.col(f"_met{NAMES[side]}")
    if join.within.eager:
        pairs = pairs.where(F.col("_at.place") == met_place)  # only pairs that it met when it came
    pairs = pairs.select(met_place.alias("_met")).distinct()
    unmatched_records = meeting_records.join(pairs, F.col("_place.place") == F.col("_met"), "left_anti")
    comes_at_once = F.lit(join.within.eager) | F.col("_late")
    row_place = F.when(comes_at_once, F.col("_place")).otherwise(F.col("_closes"))
    unmatched_records = unmatched_records.withColumns(
        {"_at": row_place, "_phase": F.when(comes_at_once, F.lit(ALONE)).otherwise(F.lit(CLOSED))}
    )
    keyless_records = closing_records.where((F.col("_side") == int(side)) & F.col("_null_key"))
    keyless_records = keyless_records.withColumns({"_at": F.col("_place"), "_phase": F.lit(ALONE)})
    order_item = F.struct(
        F.col("_time").alias("time"), F.col("_side").alias("side"), F.col("_place.place").alias("place")
    )
    column_names = ["_at", "_phase", "_item", "_time", "_null_key", NAMES[side]]
    return [
        rows.where(F.col("_at").isNotNull()).withColumn("_item", order_item).select(*column_names)
        for rows in (unmatched_records, keyless_records)
    ]


def _to_stream_frame(join: StreamJoin, rows: DataFrame) -> DataFrame:
    """Return the joined rows in the form of a stream's frame: at the place of the record with which they came."""
    key_columns = {
        left_name: F.coalesce(F.col(f"_left.`{left_name}`"), F.col(f"_right.`{right_name}`"))
        for left_name, right_name in zip(join.left.key, join.right.key, strict=True)
    }
    value_columns = [
        key_columns.get(column.name, F.col(f"_left.`{column.name}`")).alias(column.name) for column in join.left.columns
    ]
    value_columns += [F.col(f"_right.`{name}`").alias(added_name) for name, added_name in join.added]
    rows = rows.withColumn("_position", F.col("_at.place")).withColumn("_position", numbered_position(F.col("_number")))
    return rows.select(
        *value_columns, F.lit(False).alias("_tombstone"), "_null_key", "_position",
        F.col("_at.topic_id").alias("_topic_id"), F.col("_time").alias("rowtime"), "_at.rowpartition", "_at.rowoffset",
    )  # fmt: skip
