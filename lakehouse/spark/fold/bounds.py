"""The smallest and the largest key of a batch, so that Delta reads only the files that can hold such keys.

If a batch's keys lie together (the newest windows, neighbouring keys), its cost then does not grow with the table.

Times come from Spark, and go back, as text in UTC. An observation gives a timestamp as a datetime in the local zone of
this process, and in the hour that daylight saving repeats such a datetime means two moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, DataType, DateType, TimestampNTZType, TimestampType

from lakehouse.spark.jvm.in_memory import InMemory

KeyBounds = dict[str, tuple[Any, Any]]  # by column; those of a time are literal columns
LITERALS: dict[type[DataType], str] = {
    TimestampType: "timestamp'{}Z'",
    TimestampNTZType: "timestamp_ntz'{}'",
    DateType: "date'{}'",
}


@dataclass(frozen=True, slots=True)
class HeldFrame:
    """A frame that is held in memory, its number of rows, and the bounds of its keys. Its owner releases the memory."""

    frame: DataFrame
    count: int
    bounds: KeyBounds
    memory: InMemory


def hold_with_bounds(frame: DataFrame, column_names: Iterable[str]) -> HeldFrame:
    """Hold a frame in memory, with the bounds of each of these columns whose type has an order.

    A column with a null has no bounds: no file could be skipped by it.
    """
    data_types = {field.name: field.dataType for field in frame.schema}
    ordered_columns = [
        n for n in column_names if isinstance(data_types[n], AtomicType) and not isinstance(data_types[n], BinaryType)
    ]
    observation, metrics = Observation(), [F.count(F.lit(1)).alias("rows")]
    for number, name in enumerate(ordered_columns):
        has_no_nulls = F.count_if(F.col(f"`{name}`").isNull()) == 0
        observed_type = "string" if type(data_types[name]) in LITERALS else data_types[name]
        metrics += [
            F.when(has_no_nulls, edge(f"`{name}`").cast(observed_type)).alias(f"{edge.__name__} {number}")
            for edge in (F.min, F.max)
        ]
    memory = InMemory(frame.observe(observation, *metrics))
    frame = memory.frame(frame.sparkSession)
    try:
        row_count = frame.count()
        memory.finish_read()
    except BaseException:
        memory.release()
        raise
    edges_by_column = {
        name: (observation.get[f"min {n}"], observation.get[f"max {n}"]) for n, name in enumerate(ordered_columns)
    }
    known_edges = {name: edges for name, edges in edges_by_column.items() if edges[0] is not None}
    bounds = {
        n: (_to_literal(low, data_types[n]), _to_literal(high, data_types[n])) for n, (low, high) in known_edges.items()
    }
    return HeldFrame(frame, row_count, bounds, memory)


def _to_literal(value: Any, data_type: DataType) -> Any:
    """Return a value as a literal: Delta skips no files by a value that Spark must compute first."""
    literal_format = LITERALS.get(type(data_type))
    return value if literal_format is None else F.expr(literal_format.format(value))


def is_within(bounds: KeyBounds, alias: str) -> Column:
    """Return the condition that an aliased row's columns lie within the bounds."""
    column_edges = [(F.col(f"{alias}.`{name}`"), low, high) for name, (low, high) in bounds.items()]
    return reduce(
        and_, [(column >= F.lit(low)) & (column <= F.lit(high)) for column, low, high in column_edges], F.lit(True)
    )
