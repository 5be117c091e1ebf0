"""Streams joined with streams on Spark: all records of both between two ticks, and of those before the batch.

The rule is `lakehouse.semantics.operators.stream_join`, in the order of positions; tests hold this form equal to it.
For each record it is told where it closes: the first record of its partition (by number, of both streams) that
moves stream time past the end of its window and the grace. A pair then comes out with the later of the two, if that
came before the earlier one was closed; and a padded row with what closed it.

    _now      stream time of the record's partition, with the record
    _too_late it was closed when it came, in this batch
    _closes   where it closes: struct(place, topic_id, rowpartition, rowoffset); null if nothing has closed it
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
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.operators.stream_join import JoinSide
from lakehouse.spark.functions import literal_map
from lakehouse.spark.stream.step import era_of, merged, numbered

# The rows that come with one record: of the windows that it closes, of its partners, and its own without any.
CLOSED, MET, ALONE = range(3)
MOVER, RECORD = range(2)
CLOSING = ("_value", "_kind", "_mover", "_first", "_now", "_moved", "_era", "_in")
NAMES = {JoinSide.LEFT: "_left", JoinSide.RIGHT: "_right"}


class Stand(NamedTuple):
    """The stream times of a join after a tick, in milliseconds, by era and number of the partition: "0/3"."""

    tick: int
    times: Mapping[str, int]


# Before the covered records of a restored table, which are in tick `NO_TICK`.
BEGINNING = Stand(NO_TICK - 1, {})


class Earlier(Protocol):
    """The records before the batch, which joins of streams meet. after: the tick before the batch's first."""

    after: int

    def begun(self, join: StreamJoin) -> Stand:
        """Return the stand of a join up to which no record can matter in the batch."""

    def records(self, stream: Stream, since: int) -> DataFrame:
        """Return a stream's records of the ticks after `since`, up to `after`."""


def joined_streams(
    join: StreamJoin,
    streams: Sequence[DataFrame],
    earlier: Earlier | None,
    hold: Callable[[DataFrame], DataFrame],
    eras: Sequence[int] = (),
    forced: DataFrame | None = None,
) -> DataFrame:
    """Return the records of a join that come with records of a batch, in the form of a stream's frame.

    streams: the records of both in the batch. earlier: what came before it; None if nothing did. hold: holds rows that
    are read several times. eras: the ticks at which the eras of its topics begin.
    forced: the places of late records that were taken in after all, each with the tick `at` of that: they meet all that
    had come by then.
    """
    after, begun = BEGINNING.tick, BEGINNING
    if earlier is not None:
        after, begun = earlier.after, earlier.begun(join)
        before = [earlier.records(part, begun.tick) for part in join.parts]
        streams = [records.unionByName(of) for records, of in zip(streams, before, strict=True)]
    left, right = (_side(join, side, records) for side, records in zip(JoinSide, streams, strict=True))
    both = left.unionByName(right, allowMissingColumns=True).withColumn(
        "_era", era_of(eras, F.col("_place.place.tick"))
    )
    known = _closing(_timed(both, begun.times), len(eras))
    # A restored table's changelog has told of what it covers, in tick 0.
    came = F.col("_place.place.tick") > max(after, NO_TICK)
    known = known.withColumn("_too_late", F.col("_late") & F.col("_meets") & came)
    known = hold(_with_forced(known, forced))
    sides = {side: known.where((F.col("_side") == int(side)) & F.col("_meets")) for side in JoinSide}
    pairs = _pairs(join, sides[JoinSide.LEFT], sides[JoinSide.RIGHT])
    made = [pairs.drop("_met_left", "_met_right")]  # both sides' columns, also where none is kept
    made += [row for side in join.kept for row in _unmatched(join, side, sides[side], known, pairs)]
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), made)
    rows = rows.where(F.col("_at.place.tick") > after)
    order = Window.partitionBy("_at.place").orderBy("_phase", "_item")
    rows = rows.withColumn("_number", F.row_number().over(order) - 1)
    return _frame(join, rows)


def _side(join: StreamJoin, side: JoinSide, records: DataFrame) -> DataFrame:
    """One stream's records in the form in which both are looked at together."""
    stream, within = join.parts[side], join.within
    time = F.col("rowtime")
    ordered = records.withColumn("_position", merged(int(side)))
    place = F.struct(
        F.col("_position").alias("place"), F.col("_topic_id").alias("topic_id"), "rowpartition", "rowoffset"
    )
    keys = [F.col(name).alias(f"_key_{number}") for number, name in enumerate(stream.key)]
    return ordered.select(
        *keys, F.lit(int(side)).alias("_side"), time.alias("_time"), F.col("_position.partition").alias("_part"),
        place.alias("_place"), (~F.col("_tombstone") & ~F.col("_null_key")).alias("_meets"),
        (~F.col("_tombstone") & F.col("_null_key")).alias("_null_key"),
        (time + F.lit(within.closes(side, 0))).alias("_limit"),
        F.struct(*[column.name for column in stream.columns]).alias(NAMES[side]),
    )  # fmt: skip


def _timed(both: DataFrame, begun: Mapping[str, int]) -> DataFrame:
    """Give the records `_now`; `_moved`: it moves stream time."""
    partition = Window.partitionBy("_part", "_era").orderBy("_place.place")
    first = F.element_at(literal_map(begun, "bigint"), F.concat_ws("/", F.col("_era").cast("string"), F.col("_part")))
    both = both.withColumn("_now", F.greatest(first, F.max("_time").over(partition)))
    before = F.coalesce(F.lag("_now").over(partition), first)
    return both.withColumn("_moved", before.isNull() | (F.col("_now") > before))


def _closing(timed: DataFrame, last: int) -> DataFrame:
    """Give the records `_closes`: the first that moves stream time past their limit; their own place if one has."""
    # From the largest time down, the last mover that was seen is the first one past the limit. A mover is there twice.
    kinds = F.when(F.col("_moved"), F.array(F.lit(MOVER), F.lit(RECORD))).otherwise(F.array(F.lit(RECORD)))
    rows = timed.select("*", F.explode(kinds).alias("_kind"))
    is_mover = F.col("_kind") == MOVER
    # In a new era stream time starts over: a record that is still open can be closed in each of the later ones.
    later = F.sequence("_era", F.lit(last)) if last else F.array("_era")
    rows = rows.withColumn("_in", F.explode(F.when(is_mover, F.array("_era")).otherwise(later)))
    value, mover = F.when(is_mover, F.col("_now")).otherwise(F.col("_limit")), F.when(is_mover, F.col("_place"))
    rows = rows.withColumns({"_value": value, "_mover": mover})
    down = Window.partitionBy("_part", "_in").orderBy(F.col("_value").desc(), F.col("_kind").desc())
    down = down.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = rows.withColumn("_first", F.last("_mover", ignorenulls=True).over(down)).where(~is_mover)
    if last:
        known = known.withColumn("_first", F.min("_first").over(Window.partitionBy("_place.place")))
        known = known.where(F.col("_in") == F.col("_era"))
    known = known.withColumn("_late", F.col("_now") > F.col("_limit"))
    closes = F.when(F.col("_late"), F.col("_place")).otherwise(F.col("_first"))
    return known.withColumn("_closes", closes).drop(*CLOSING)


def _pairs(join: StreamJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """The pairs that meet: both rows, their time, and the place of the later one."""
    within, number = join.within, len(join.left.key)
    # Records are compared with those of the same stretch of time, not with all of their key.
    size = max(within.before + within.after, 1)
    stretches = [F.floor((F.col("_time") + moved) / size) for moved in (-within.before, within.after)]
    one = left.withColumn("_stretch", F.explode(F.array_distinct(F.array(*stretches)))).alias("l")
    other = right.withColumn("_stretch", F.floor(F.col("_time") / size)).alias("r")
    same = [F.col(f"l._key_{key}").eqNullSafe(F.col(f"r._key_{key}")) for key in range(number)]
    near = F.col("r._time").between(F.col("l._time") - within.before, F.col("l._time") + within.after)
    first = F.col("l._place.place") < F.col("r._place.place")
    is_open = F.when(first, _open("l", "r")).otherwise(_open("r", "l"))
    is_open |= _taken_in("l", "r") | _taken_in("r", "l")
    condition = reduce(and_, [*same, F.col("l._stretch") == F.col("r._stretch"), near, is_open])
    later, earlier = (F.when(first, F.col(f"{a}._place")).otherwise(F.col(f"{b}._place")) for a, b in ("rl", "lr"))
    time = F.when(first, F.col("l._time")).otherwise(F.col("r._time"))
    return one.join(other, condition).select(
        later.alias("_at"), F.lit(MET).alias("_phase"),
        F.struct(time.alias("time"), F.lit(0).alias("side"), earlier.getField("place").alias("place")).alias("_item"),
        F.greatest("l._time", "r._time").alias("_time"), F.lit(False).alias("_null_key"), "l._left", "r._right",
        F.col("l._place.place").alias("_met_left"), F.col("r._place.place").alias("_met_right"),
    )  # fmt: skip


def _open(earlier: str, later: str) -> Column:
    closes = F.col(f"{earlier}._closes")
    return closes.isNull() | (closes.getField("place") > F.col(f"{later}._place.place"))


def _taken_in(one: str, other: str) -> Column:
    """Whether one record came too late, and was taken in after all when the other one was there."""
    return F.coalesce(F.col(f"{one}._forced") > F.col(f"{other}._place.place.tick"), F.lit(False))


def _with_forced(known: DataFrame, forced: DataFrame | None) -> DataFrame:
    """Give the records `_forced`, the tick at which they were taken in after all; null for all others."""
    if forced is None:
        return known.withColumn("_forced", F.lit(None).cast("bigint"))
    names = ("tick", "topic", "partition", "offset", "ordinals")
    places = F.broadcast(forced.groupBy(*names).agg(F.min("at").alias("_forced"))).alias("p")
    same = [F.col(f"k._place.place.{name}") == F.col(f"p.{name}") for name in names]
    return known.alias("k").join(places, same, "left").select("k.*", "p._forced")


def _unmatched(
    join: StreamJoin, side: JoinSide, meeting: DataFrame, known: DataFrame, pairs: DataFrame
) -> list[DataFrame]:
    """The padded rows of one side."""
    met = F.col(f"_met{NAMES[side]}")
    if join.within.eager:
        pairs = pairs.where(F.col("_at.place") == met)  # it met one when it came
    pairs = pairs.select(met.alias("_met")).distinct()
    alone = meeting.join(pairs, F.col("_place.place") == F.col("_met"), "left_anti")
    at_once = F.lit(join.within.eager) | F.col("_late")
    at = F.when(at_once, F.col("_place")).otherwise(F.col("_closes"))
    alone = alone.withColumns({"_at": at, "_phase": F.when(at_once, F.lit(ALONE)).otherwise(F.lit(CLOSED))})
    without = known.where((F.col("_side") == int(side)) & F.col("_null_key"))
    without = without.withColumns({"_at": F.col("_place"), "_phase": F.lit(ALONE)})
    item = F.struct(F.col("_time").alias("time"), F.col("_side").alias("side"), F.col("_place.place").alias("place"))
    names = ["_at", "_phase", "_item", "_time", "_null_key", NAMES[side]]
    return [rows.where(F.col("_at").isNotNull()).withColumn("_item", item).select(*names) for rows in (alone, without)]


def _frame(join: StreamJoin, rows: DataFrame) -> DataFrame:
    """The rows that come out as a stream's frame: at the place of the record with which they came."""
    keys = {
        mine: F.coalesce(F.col(f"_left.`{mine}`"), F.col(f"_right.`{theirs}`"))
        for mine, theirs in zip(join.left.key, join.right.key, strict=True)
    }
    values = [keys.get(c.name, F.col(f"_left.`{c.name}`")).alias(c.name) for c in join.left.columns]
    values += [F.col(f"_right.`{name}`").alias(made) for name, made in join.added]
    rows = rows.withColumn("_position", F.col("_at.place")).withColumn("_position", numbered(F.col("_number")))
    return rows.select(
        *values, F.lit(False).alias("_tombstone"), "_null_key", "_position",
        F.col("_at.topic_id").alias("_topic_id"), F.col("_time").alias("rowtime"), "_at.rowpartition", "_at.rowoffset",
    )  # fmt: skip
