"""The steps of a stream on Spark, one function each, over the frame that `lakehouse.spark.stream.streams` describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce, singledispatch
from operator import add, and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.expression.expression import Named
from lakehouse.plan.expression.schema import ORDINALS_TYPE, PSEUDO_COLUMNS
from lakehouse.plan.step import Explode, Filter, Judge, Map, Rekey, Retime, Select, Step
from lakehouse.spark.expression.arrow_functions import column_function_of_map, spark_type
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.expression.years import compute_columns, epoch_ms, in_range, null_outside_years
from lakehouse.spark.key_column import computed_keys

OWN_COLUMNS = ("_tombstone", "_null_key", "_position", "_topic_id")
UNDO = "_undo"  # whether a record takes a table's row out, see `lakehouse.spark.stream.rows`


@dataclass(frozen=True, slots=True)
class StreamRows:
    """A stream's records, and the names of their key columns.

    count_failures: called once for each `map`, with the step, its records, and the error of each; returns the records.
    count_unmet: called once for each `Judge`, with the step and its records; returns the records.
    """

    frame: DataFrame
    key: tuple[str, ...]
    count_failures: Callable[[Map, DataFrame, Column], DataFrame]
    count_unmet: Callable[[Judge, DataFrame], DataFrame]

    def with_frame(self, frame: DataFrame) -> StreamRows:
        return replace(self, frame=frame)


@singledispatch
def apply_step(step: Step, stream_rows: StreamRows) -> StreamRows:
    """Return a stream's records after a step."""
    raise NotImplementedError(type(step))


@apply_step.register
def _filter(step: Filter, stream_rows: StreamRows) -> StreamRows:
    return stream_rows.with_frame(stream_rows.frame.where(~F.col("_tombstone") & column_of(step.predicate)))


@apply_step.register
def _judge(step: Judge, stream_rows: StreamRows) -> StreamRows:
    return stream_rows.with_frame(stream_rows.count_unmet(step, stream_rows.frame))


@apply_step.register
def _select(step: Select, stream_rows: StreamRows) -> StreamRows:
    columns = [column.alias(name) for name, column in _columns_by_name(stream_rows.frame, step.columns).items()]
    undo = [name for name in stream_rows.frame.columns if name == UNDO]
    return stream_rows.with_frame(
        stream_rows.frame.select(*stream_rows.key, *columns, *OWN_COLUMNS, *undo, *PSEUDO_COLUMNS)
    )


@apply_step.register
def _rekey(step: Rekey, stream_rows: StreamRows) -> StreamRows:
    key = tuple(item.name for item in step.columns)
    value_names = {item.name for item in step.columns if step.needs_value(item)}
    key_columns = zip(key, computed_keys(stream_rows.frame, step.expressions), strict=True)
    is_there = ~F.col("_tombstone")
    frame = stream_rows.frame.withColumns(
        {n: F.when(is_there, column) if n in value_names else column for n, column in key_columns}
    )
    frame = frame.withColumn("_null_key", reduce(and_, [F.col(name).isNull() for name in key]))
    return replace(stream_rows, frame=frame, key=key)


@apply_step.register
def _retime(step: Retime, stream_rows: StreamRows) -> StreamRows:
    time = epoch_ms(stream_rows.frame, compute_columns(stream_rows.frame, [step.time])[0])
    frame = stream_rows.frame.withColumn("rowtime", F.when(F.col("_tombstone"), F.col("rowtime")).otherwise(time))
    return stream_rows.with_frame(frame.where(F.col("_tombstone") | in_range(F.col("rowtime"))))


@apply_step.register
def _explode(step: Explode, stream_rows: StreamRows) -> StreamRows:
    (array_column,) = compute_columns(stream_rows.frame, [step.column.expression])
    exploded_item = F.posexplode(array_column).alias("_number", step.column.name)
    frame = stream_rows.frame.where(~F.col("_tombstone")).select("*", exploded_item)
    return stream_rows.with_frame(frame.withColumn("_position", numbered_position(F.col("_number"))).drop("_number"))


@apply_step.register
def _map(step: Map, stream_rows: StreamRows) -> StreamRows:
    function_result = column_function_of_map(step)(
        F.struct(*[column_of(argument).alias(f"_{n}") for n, argument in enumerate(step.arguments)])
    )
    frame = stream_rows.frame.withColumn("_mapped", F.when(~F.col("_tombstone"), function_result))
    frame = stream_rows.count_failures(step, frame, F.col("_mapped.error"))
    value = null_outside_years(F.col("_mapped.value"), spark_type(step.type))
    return stream_rows.with_frame(frame.withColumn(step.name, value).drop("_mapped"))


def _columns_by_name(frame: DataFrame, items: tuple[Named, ...]) -> dict[str, Column]:
    return dict(
        zip([item.name for item in items], compute_columns(frame, [item.expression for item in items]), strict=True)
    )


def extended_position(base_position: Column, *, front: Sequence[Column] = (), back: Sequence[Column] = ()) -> Column:
    """Return a position with more ordinals: see `Position.merged` and `Position.with_number`."""
    parts = [F.array(*front).cast(ORDINALS_TYPE)] if front else []
    parts += [base_position["ordinals"], *([F.array(*back).cast(ORDINALS_TYPE)] if back else [])]
    return base_position.withField("ordinals", F.concat(*parts))


def numbered_position(number: Column) -> Column:
    """Return the positions of records that a step makes from one record."""
    return extended_position(F.col("_position"), back=[number])


def merged_position(number: int) -> Column:
    """Return the positions of records in a merge. number: that of their stream."""
    return extended_position(F.col("_position"), front=[F.lit(number)])


def era_of(era_ticks: Sequence[int], tick: Column) -> Column:
    """Return the era of a tick. era_ticks: see `lakehouse.semantics.operators.eras.era_starts`."""
    return reduce(add, [(tick >= era_tick).cast("int") for era_tick in era_ticks], F.lit(0))
