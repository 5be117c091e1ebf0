"""The records that reach a table: its key, its aggregates' inputs, and the time by which they are judged.

_in_<name>    an aggregation's input
_part, _time  the partition whose clock they move, their own if the frame names no other, and the time in milliseconds
              that the clock takes from them
_horizon, _watermark, _tail   see `lakehouse.spark.operators.clock`; only where the table has a clock
_order        `order_by`: the time in microseconds since 1970, or the number
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, singledispatch
from operator import methodcaller, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.operator import WINDOW_COLUMNS, Aggregate, Fold, Latest, LatestBy
from lakehouse.plan.table import Table
from lakehouse.semantics.tombstone import LEAST_ORDER
from lakehouse.semantics.window import Hopping
from lakehouse.semantics.years import FIRST_MS, LAST_MS
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.operators.aggregates import Form
from lakehouse.spark.operators.clock import ALWAYS_MS, ClockState, timed
from lakehouse.spark.operators.content import image
from lakehouse.spark.operators.way import Way, way_of
from lakehouse.spark.stream.step import UNDO
from lakehouse.spark.years import computed


def _part(rows: DataFrame) -> Column:
    if "_part" in rows.columns:
        return F.col("_part")
    return F.concat_ws("/", "_position.topic", "_topic_id", "_position.partition").alias("_part")


def null_key(table: Table, rows: DataFrame) -> Column:
    """The records of a stream's frame that are ignored because of a null key, and counted.

    A struct of nulls is not a null (rule 1).
    """
    if isinstance(table.fold, Aggregate):
        return ~F.col("_tombstone") & _any_null(_groups(table.fold, rows))
    return F.col("_null_key")


def _groups(fold: Aggregate, rows: DataFrame) -> list[Column]:
    return computed_keys(rows, [item.expression for item in fold.by])


def _any_null(values: list[Column]) -> Column:
    return reduce(or_, [value.isNull() for value in values])


def arrivals(
    table: Table,
    forms: list[Form],
    rows: DataFrame,
    clock: ClockState | None,
    *,
    units: bool = False,
) -> DataFrame:
    """Return the records of a stream's frame that reach the table.

    clock: the table's clock before them; None for a table without one. For an aggregation the input of its form in SQL
    is taken, or, with `units`, its unit; for the Python rules, the value as it is.
    """
    pick = Form.raw if way_of(table) is Way.PYTHON else methodcaller("unit" if units else "value")
    made = _taken(table.fold, table, forms, rows, pick)
    if clock is None:
        return made
    if not table.stream.reads:
        return timed(table, made, clock)
    # An intervention's change in an upstream table has no partition: it moves no stream time, and is late only for
    # windows that have closed by the watermark.
    timely = timed(table, made, clock, moves=F.col("_position.partition") >= 0)
    return timely.withColumn("_horizon", F.coalesce("_horizon", F.lit(ALWAYS_MS)))


@singledispatch
def _taken(fold: Fold, table: Table, forms: list[Form], rows: DataFrame, pick: Callable[[Form], Column]) -> DataFrame:
    """What a table's operator takes from the records that it does not leave out."""
    raise NotImplementedError(type(fold))


@_taken.register
def _inputs(
    fold: Aggregate, table: Table, forms: list[Form], rows: DataFrame, pick: Callable[[Form], Column]
) -> DataFrame:
    groups = _groups(fold, rows)
    read = {form.name: form.item.argument for form in forms if form.item.argument is not None}
    arguments = zip(read, computed(rows, list(read.values())), strict=True)
    rows = rows.withColumns({f"_arg_{name}": made for name, made in arguments}) if read else rows
    rows = rows.where(~F.col("_tombstone") & ~_any_null(groups))
    keys = [made.alias(item.name) for made, item in zip(groups, fold.by, strict=True)]
    values = [pick(form).alias(f"_in_{form.name}") for form in forms]
    time = [_part(rows), F.col("rowtime").alias("_time")]
    # The row's key as a text tells the rows of a group apart.
    row = [image(rows, table.stream.key).alias("_row"), F.col(UNDO)] if table.stream.undoes else []
    return rows.select(*keys, *values, "rowtime", "_position", *time, *row)


@_taken.register
def _values(fold: Latest, table: Table, forms: list[Form], rows: DataFrame, pick: object) -> DataFrame:
    names = [column.name for column in table.stream.columns]
    gone = F.col(UNDO if table.stream.undoes else "_tombstone").alias("_tombstone")
    return rows.where(~F.col("_null_key")).select(*names, gone, "rowtime", "_position")


@_taken.register
def _ordered(fold: LatestBy, table: Table, forms: list[Form], rows: DataFrame, pick: object) -> DataFrame:
    names = [column.name for column in table.stream.columns]
    rows = rows.where(~F.col("_null_key"))
    (order,) = computed(rows, [fold.order])
    time = order
    if dict(rows.select(order.alias("o")).dtypes)["o"] == "timestamp":
        order, time = F.unix_micros(order), F.unix_millis(order)
    elif fold.is_time:
        order = order * 1000
    if fold.is_time:  # a null value has no columns to take the order from: it keeps the record's own time
        order, time = F.coalesce(order, F.col("rowtime") * 1000), F.coalesce(time, F.col("rowtime"))
    if fold.is_always_deleted:  # see `lakehouse.spark.operators.newest`, which gives it an order
        order = F.when(F.col("_tombstone"), F.lit(LEAST_ORDER)).otherwise(order)
    return rows.select(
        *names, "_tombstone", "rowtime", "_position", order.cast("bigint").alias("_order"),
        _part(rows), time.cast("bigint").alias("_time"),
    )  # fmt: skip


def can_be_late(table: Table) -> bool:
    """Say whether `judged` can tell of records that are too late: by an order, or in tumbling and hopping windows."""
    return isinstance(table.fold, LatestBy) or isinstance(table.fold.window, Hopping)


def judged(table: Table, rows: DataFrame) -> DataFrame:
    """Give arrived records `_late`: too late, or never in time. In tumbling and hopping windows: one row a window.

    For sessions and sliding windows only the rules in Python can tell (`lakehouse.spark.operators.keyed`).
    """
    fold = table.fold
    if isinstance(fold, LatestBy):
        return rows.withColumn("_late", _disorder(fold))
    assert isinstance(fold.window, Hopping)
    return _in_windows(fold.window, rows)


def timely(table: Table, rows: DataFrame) -> DataFrame:
    """Return the arrived records that are not too late; in tumbling and hopping windows: one row a window."""
    return judged(table, rows).where(~F.col("_late")) if can_be_late(table) else rows


def _in_windows(window: Hopping, rows: DataFrame) -> DataFrame:
    """Each record with its windows, one row each; `_late` if it is too late for that window."""
    time, advance = F.col("_time"), F.lit(window.advance)
    first = time - window.size + window.advance
    first = first - F.pmod(first, advance)
    # As in Kafka Streams no window begins before the epoch, except for records that are before it themselves.
    first = F.when(time >= 0, F.greatest(first, F.lit(0))).otherwise(first)
    start = F.explode(F.sequence(first, time, advance.cast("bigint"))).alias("_start")
    rows = rows.select("*", start)
    # Cut to the valid times: see Hopping.
    end = F.least(F.col("_start") + window.size, F.lit(LAST_MS))
    begin_end = [F.timestamp_millis(F.greatest(F.col("_start"), F.lit(FIRST_MS))), F.timestamp_millis(end)]
    rows = rows.withColumns(dict(zip(WINDOW_COLUMNS, begin_end, strict=True)))
    return rows.withColumn("_late", F.coalesce(end + window.grace <= F.col("_horizon"), F.lit(False))).drop("_start")


def _disorder(fold: LatestBy) -> Column:
    """The records that can't be taken in: they have no order, or are older than what is remembered."""
    late = F.col("_order").isNull()
    if fold.remembers is not None:
        late = late | F.coalesce(F.col("_time") <= F.col("_horizon") - fold.remembers, F.lit(False))
    return late & ~F.col("_tombstone") if fold.is_always_deleted else late
