"""The records that reach a table: their key, the aggregates' inputs, and the time that decides whether they are late.

_in_<name>    an aggregation's input
_part, _time  the partition whose clock the record moves (its own, if the frame names no other), and the time in
              milliseconds that the clock takes from it
_horizon, _watermark, _tail   see `lakehouse.spark.fold.clock`; only where the table has a clock
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
from lakehouse.semantics.clock import ClockState
from lakehouse.semantics.tombstone import LEAST_ORDER
from lakehouse.semantics.window import Hopping
from lakehouse.semantics.years import FIRST_MS, LAST_MS
from lakehouse.spark.expression.years import compute_columns
from lakehouse.spark.fold.aggregates import Form
from lakehouse.spark.fold.clock import ALWAYS_MS, with_stream_time
from lakehouse.spark.fold.content import row_image
from lakehouse.spark.fold.fold_way import FoldWay, fold_way_of
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.step import UNDO


def _clock_partition(rows: DataFrame) -> Column:
    if "_part" in rows.columns:
        return F.col("_part")
    return F.concat_ws("/", "_position.topic", "_topic_id", "_position.partition").alias("_part")


def has_null_key(table: Table, rows: DataFrame) -> Column:
    """Return the condition on records of a stream's frame that are counted and ignored, because their key is null.

    A struct of nulls is not a null (rule 1).
    """
    if isinstance(table.fold, Aggregate):
        return ~F.col("_tombstone") & _any_null(_group_expressions(table.fold, rows))
    return F.col("_null_key")


def _group_expressions(fold: Aggregate, rows: DataFrame) -> list[Column]:
    return computed_keys(rows, [item.expression for item in fold.by])


def _any_null(values: list[Column]) -> Column:
    return reduce(or_, [value.isNull() for value in values])


def arriving_records(
    table: Table,
    forms: list[Form],
    rows: DataFrame,
    clock: ClockState | None,
    *,
    units: bool = False,
) -> DataFrame:
    """Return the records of a stream's frame that reach the table.

    clock: the table's clock before these records; None for a table without a clock. units: an aggregation's input is
    the unit of its form, not its value; the Python rules take the raw value anyway.
    """
    pick_input = Form.raw_input if fold_way_of(table) is FoldWay.PYTHON else methodcaller("unit" if units else "value")
    taken_records = _operator_input(table.fold, table, forms, rows, pick_input)
    if clock is None:
        return taken_records
    if not table.stream.reads:
        return with_stream_time(table, taken_records, clock)
    # An intervention's change in an upstream table has no partition: it moves no stream time, and is late only for
    # windows that have closed by the watermark.
    timed_records = with_stream_time(table, taken_records, clock, moves=F.col("_position.partition") >= 0)
    return timed_records.withColumn("_horizon", F.coalesce("_horizon", F.lit(ALWAYS_MS)))


@singledispatch
def _operator_input(
    fold: Fold, table: Table, forms: list[Form], rows: DataFrame, pick: Callable[[Form], Column]
) -> DataFrame:
    """Return the columns that a table's operator takes from the records, without those that it ignores."""
    raise NotImplementedError(type(fold))


@_operator_input.register
def _aggregate_input(
    fold: Aggregate, table: Table, forms: list[Form], rows: DataFrame, pick: Callable[[Form], Column]
) -> DataFrame:
    group_columns = _group_expressions(fold, rows)
    arguments_by_name = {form.name: form.item.argument for form in forms if form.item.argument is not None}
    argument_columns = zip(arguments_by_name, compute_columns(rows, list(arguments_by_name.values())), strict=True)
    rows = (
        rows.withColumns({f"_arg_{name}": column for name, column in argument_columns}) if arguments_by_name else rows
    )
    rows = rows.where(~F.col("_tombstone") & ~_any_null(group_columns))
    key_columns = [column.alias(item.name) for column, item in zip(group_columns, fold.by, strict=True)]
    input_columns = [pick(form).alias(f"_in_{form.name}") for form in forms]
    time_columns = [_clock_partition(rows), F.col("rowtime").alias("_time")]
    # The row's key as a text tells the rows of a group apart.
    row_columns = [row_image(rows, table.stream.key).alias("_row"), F.col(UNDO)] if table.stream.undoes else []
    return rows.select(*key_columns, *input_columns, "rowtime", "_position", *time_columns, *row_columns)


@_operator_input.register
def _latest_input(fold: Latest, table: Table, forms: list[Form], rows: DataFrame, pick: object) -> DataFrame:
    column_names = [column.name for column in table.stream.columns]
    is_tombstone = F.col(UNDO if table.stream.undoes else "_tombstone").alias("_tombstone")
    return rows.where(~F.col("_null_key")).select(*column_names, is_tombstone, "rowtime", "_position")


@_operator_input.register
def _latest_by_input(fold: LatestBy, table: Table, forms: list[Form], rows: DataFrame, pick: object) -> DataFrame:
    column_names = [column.name for column in table.stream.columns]
    rows = rows.where(~F.col("_null_key"))
    (order_value,) = compute_columns(rows, [fold.order])
    order_time = order_value
    if dict(rows.select(order_value.alias("o")).dtypes)["o"] == "timestamp":
        order_value, order_time = F.unix_micros(order_value), F.unix_millis(order_value)
    elif fold.is_time:
        order_value = order_value * 1000
    if fold.is_time:  # a null value has no columns to order by: the record's own time serves
        order_value, order_time = (
            F.coalesce(order_value, F.col("rowtime") * 1000),
            F.coalesce(order_time, F.col("rowtime")),
        )
    if fold.is_always_deleted:  # see `lakehouse.spark.fold.newest`, which gives it an order
        order_value = F.when(F.col("_tombstone"), F.lit(LEAST_ORDER)).otherwise(order_value)
    return rows.select(
        *column_names,
        "_tombstone",
        "rowtime",
        "_position",
        order_value.cast("bigint").alias("_order"),
        _clock_partition(rows),
        order_time.cast("bigint").alias("_time"),
    )


def can_be_late(table: Table) -> bool:
    """Say whether `with_lateness` can tell late records: by an order, or in tumbling and hopping windows."""
    return isinstance(table.fold, LatestBy) or isinstance(table.fold.window, Hopping)


def with_lateness(table: Table, rows: DataFrame) -> DataFrame:
    """Add `_late` to arrived records: too late, or never in time. In tumbling and hopping windows: one row a window.

    For sessions and sliding windows only the rules in Python can tell (`lakehouse.spark.fold.keyed`).
    """
    fold = table.fold
    if isinstance(fold, LatestBy):
        return rows.withColumn("_late", _is_out_of_order(fold))
    assert isinstance(fold.window, Hopping)
    return _with_windows(fold.window, rows)


def timely_records(table: Table, rows: DataFrame) -> DataFrame:
    """Return the arrived records that are not too late; in tumbling and hopping windows: one row a window."""
    return with_lateness(table, rows).where(~F.col("_late")) if can_be_late(table) else rows


def _with_windows(window: Hopping, rows: DataFrame) -> DataFrame:
    """Return each record once for each of its windows; `_late` if it is too late for that window."""
    time, advance = F.col("_time"), F.lit(window.advance)
    first_start = time - window.size + window.advance
    first_start = first_start - F.pmod(first_start, advance)
    # As in Kafka Streams no window begins before the epoch, except for records that are before it themselves.
    first_start = F.when(time >= 0, F.greatest(first_start, F.lit(0))).otherwise(first_start)
    window_start = F.explode(F.sequence(first_start, time, advance.cast("bigint"))).alias("_start")
    rows = rows.select("*", window_start)
    # Cut to the valid times: see Hopping.
    window_end = F.least(F.col("_start") + window.size, F.lit(LAST_MS))
    window_bounds = [F.timestamp_millis(F.greatest(F.col("_start"), F.lit(FIRST_MS))), F.timestamp_millis(window_end)]
    rows = rows.withColumns(dict(zip(WINDOW_COLUMNS, window_bounds, strict=True)))
    return rows.withColumn("_late", F.coalesce(window_end + window.grace <= F.col("_horizon"), F.lit(False))).drop(
        "_start"
    )


def _is_out_of_order(fold: LatestBy) -> Column:
    """Return the condition on records without an order, or older than the table remembers."""
    is_late = F.col("_order").isNull()
    if fold.remembers is not None:
        is_late = is_late | F.coalesce(F.col("_time") <= F.col("_horizon") - fold.remembers, F.lit(False))
    return is_late & ~F.col("_tombstone") if fold.is_always_deleted else is_late
