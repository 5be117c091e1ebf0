"""The records that reach a table: its key, its aggregates' inputs, and the time by which they are judged.

_in_<name>    an aggregation's input
_part, _time  the partition that they came from, and the time in milliseconds that its clock takes from them
_horizon, _watermark, _tail   see `lakehouse.delta.clock`; only where the table has a clock
_order        `order_by`: the order in milliseconds, or the number
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import methodcaller, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.delta.aggregates import Form, in_sql
from lakehouse.delta.clock import ClockState, timed
from lakehouse.plan.table import WINDOW_COLUMNS, Table
from lakehouse.semantics.window import Hopping


def _part() -> Column:
    return F.concat_ws("/", "_position.topic", "_topic_id", "_position.partition").alias("_part")


def null_key(table: Table) -> Column:
    """The records that are ignored for a null key, and counted; a struct of nulls is not a null (rule 1)."""
    return F.col("_null_key") if table.is_latest else ~F.col("_tombstone") & _null_group(table)


def _null_group(table: Table) -> Column:
    return reduce(or_, [F.expr(item.expression.text).isNull() for item in table.group_by])


def arrivals(
    table: Table,
    forms: list[Form],
    rows: DataFrame,
    clock: ClockState | None,
    *,
    units: bool = False,
) -> DataFrame:
    """Return the records of a stream's frame that reach the table.

    clock: where the table's clock stands before them; None for a table that has none. What is taken for an aggregation
    is the input of its form in SQL, or, with `units`, its unit; what the Python rules fold, as it stands.
    """
    pick = Form.raw if not in_sql(table) else methodcaller("unit" if units else "value")
    made = _values(table, rows) if table.is_latest else _inputs(table, forms, rows, pick)
    return made if clock is None else timed(table, made, clock)


def _inputs(table: Table, forms: list[Form], rows: DataFrame, pick: Callable[[Form], Column]) -> DataFrame:
    rows = rows.where(~F.col("_tombstone") & ~_null_group(table))
    keys = [F.expr(item.expression.text).alias(item.name) for item in table.group_by]
    values = [pick(form).alias(f"_in_{form.name}") for form in forms]
    time = [_part(), F.col("rowtime").alias("_time")]
    return rows.select(*keys, *values, "rowtime", "_position", *time)


def _values(table: Table, rows: DataFrame) -> DataFrame:
    names = [column.name for column in table.stream.columns]
    rows = rows.where(~F.col("_null_key"))
    if table.order_by is None:
        return rows.select(*names, "_tombstone", "rowtime", "_position")
    order = F.expr(table.order_by.text)
    if dict(rows.select(order.alias("o")).dtypes)["o"] == "timestamp":
        order = F.unix_millis(order)
    if table.order_is_time:  # a null value has no columns to take the order from: it keeps the record's own time
        order = F.coalesce(order, F.col("rowtime"))
    order = order.cast("bigint")
    return rows.select(
        *names, "_tombstone", "rowtime", "_position", order.alias("_order"),
        _part(), order.alias("_time"),
    )  # fmt: skip


def in_windows(table: Table, rows: DataFrame) -> DataFrame:
    """Give each record its tumbling or hopping windows, one row each, and `_late` where it is too late for one."""
    window = table.window
    assert isinstance(window, Hopping)
    time, advance = F.col("_time"), F.lit(window.advance)
    first = time - window.size + window.advance
    first = first - F.pmod(first, advance)
    # As in Kafka Streams no window begins before the epoch, but for records that lie before it themselves.
    first = F.when(time >= 0, F.greatest(first, F.lit(0))).otherwise(first)
    start = F.explode(F.sequence(first, time, advance.cast("bigint"))).alias("_start")
    rows = rows.select("*", start)
    end = F.col("_start") + window.size
    begin_end = [F.timestamp_millis("_start"), F.timestamp_millis(end)]
    rows = rows.withColumns(dict(zip(WINDOW_COLUMNS, begin_end, strict=True)))
    return rows.withColumn("_late", F.coalesce(end + window.grace <= F.col("_horizon"), F.lit(False))).drop("_start")


def disorder(table: Table) -> Column:
    """`order_by`: the records that can't be taken in, for they have no order, or are older than what is remembered."""
    late = F.col("_order").isNull()
    if table.retention is not None:
        late = late | (F.col("_order") <= F.col("_horizon") - table.retention)
    return late
