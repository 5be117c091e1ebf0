"""The steps of a stream on Spark, over the frame that `lakehouse.spark.stream.streams` describes.

One function a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from operator import add, and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.expression import Named
from lakehouse.plan.schema import ORDINALS_TYPE, PSEUDO_COLUMNS
from lakehouse.plan.step import Explode, Filter, Map, Rekey, Retime, Select, Step
from lakehouse.spark.expressions import column_of
from lakehouse.spark.functions import mapped, spark_type
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.years import computed, in_range, known

OWN_COLUMNS = ("_tombstone", "_null_key", "_position", "_topic_id")
UNDO = "_undo"  # a table's row is taken out, see `lakehouse.spark.stream.rows`


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream's records, and the names of their key columns. failing: gets a map's records, with the error of each."""

    frame: DataFrame
    key: tuple[str, ...]
    failing: Callable[[Map, DataFrame, Column], DataFrame]

    def of(self, frame: DataFrame) -> Flow:
        return Flow(frame, self.key, self.failing)


@singledispatch
def applied(step: Step, flow: Flow) -> Flow:
    """Return a stream's records after a step."""
    raise NotImplementedError(type(step))


@applied.register
def _filter(step: Filter, flow: Flow) -> Flow:
    return flow.of(flow.frame.where(~F.col("_tombstone") & column_of(step.predicate)))


@applied.register
def _select(step: Select, flow: Flow) -> Flow:
    made = [made.alias(name) for name, made in _named(flow.frame, step.columns).items()]
    undo = [name for name in flow.frame.columns if name == UNDO]
    return flow.of(flow.frame.select(*flow.key, *made, *OWN_COLUMNS, *undo, *PSEUDO_COLUMNS))


@applied.register
def _rekey(step: Rekey, flow: Flow) -> Flow:
    key = tuple(item.name for item in step.columns)
    needing = {item.name for item in step.columns if step.needs_value(item)}
    made = zip(key, computed_keys(flow.frame, step.expressions), strict=True)
    is_there = ~F.col("_tombstone")
    frame = flow.frame.withColumns({n: F.when(is_there, of) if n in needing else of for n, of in made})
    frame = frame.withColumn("_null_key", reduce(and_, [F.col(name).isNull() for name in key]))
    return Flow(frame, key, flow.failing)


@applied.register
def _retime(step: Retime, flow: Flow) -> Flow:
    frame = flow.frame.withColumn("_time", computed(flow.frame, [step.time])[0])
    time = F.col("_time") if dict(frame.dtypes)["_time"] == "bigint" else F.unix_millis("_time")
    frame = frame.withColumn("rowtime", F.when(F.col("_tombstone"), F.col("rowtime")).otherwise(time)).drop("_time")
    return flow.of(frame.where(F.col("_tombstone") | in_range(F.col("rowtime"))))


@applied.register
def _explode(step: Explode, flow: Flow) -> Flow:
    (array,) = computed(flow.frame, [step.column.expression])
    item = F.posexplode(array).alias("_number", step.column.name)
    frame = flow.frame.where(~F.col("_tombstone")).select("*", item)
    return flow.of(frame.withColumn("_position", numbered(F.col("_number"))).drop("_number"))


@applied.register
def _map(step: Map, flow: Flow) -> Flow:
    made_by = mapped(step)(F.struct(*[column_of(a).alias(f"_{n}") for n, a in enumerate(step.arguments)]))
    frame = flow.frame.withColumn("_mapped", F.when(~F.col("_tombstone"), made_by))
    frame = flow.failing(step, frame, F.col("_mapped.error"))
    value = known(F.col("_mapped.value"), spark_type(step.type))
    return flow.of(frame.withColumn(step.name, value).drop("_mapped"))


def _named(frame: DataFrame, items: tuple[Named, ...]) -> dict[str, Column]:
    return dict(zip([item.name for item in items], computed(frame, [item.expression for item in items]), strict=True))


def position(at: Column, *, front: Sequence[Column] = (), back: Sequence[Column] = ()) -> Column:
    """Return a position with more ordinals: see `Position.merged` and `Position.numbered`."""
    parts = [F.array(*front).cast(ORDINALS_TYPE)] if front else []
    parts += [at["ordinals"], *([F.array(*back).cast(ORDINALS_TYPE)] if back else [])]
    return at.withField("ordinals", F.concat(*parts))


def numbered(number: Column) -> Column:
    """The positions of records that a step makes from one."""
    return position(F.col("_position"), back=[number])


def merged(number: int) -> Column:
    """The positions of records in a merge."""
    return position(F.col("_position"), front=[F.lit(number)])


def era_of(begun: Sequence[int], tick: Column) -> Column:
    """The era of a tick; begun: see `lakehouse.semantics.operators.eras.begins`."""
    return reduce(add, [(tick >= begin).cast("int") for begin in begun], F.lit(0))
