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

from lakehouse.spark.in_memory import InMemory

KeyBounds = dict[str, tuple[Any, Any]]  # by column; those of a time are literal columns
LITERALS: dict[type[DataType], str] = {
    TimestampType: "timestamp'{}Z'", TimestampNTZType: "timestamp_ntz'{}'", DateType: "date'{}'",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """A frame that is held in memory, its number of rows, and the bounds of its keys. Its owner releases the memory."""

    frame: DataFrame
    count: int
    bounds: KeyBounds
    memory: InMemory


def held(frame: DataFrame, names: Iterable[str]) -> Held:
    """Hold a frame in memory, with the bounds of those of these columns that have an order.

    A column with a null has no bounds: no file could be skipped by it.
    """
    kinds = {field.name: field.dataType for field in frame.schema}
    ordered = [n for n in names if isinstance(kinds[n], AtomicType) and not isinstance(kinds[n], BinaryType)]
    seen, wanted = Observation(), [F.count(F.lit(1)).alias("rows")]
    for number, name in enumerate(ordered):
        whole = F.count_if(F.col(f"`{name}`").isNull()) == 0
        kind = "string" if type(kinds[name]) in LITERALS else kinds[name]
        wanted += [
            F.when(whole, edge(f"`{name}`").cast(kind)).alias(f"{edge.__name__} {number}") for edge in (F.min, F.max)
        ]
    memory = InMemory(frame.observe(seen, *wanted))
    frame = memory.frame(frame.sparkSession)
    try:
        count = frame.count()
        memory.was_read()
    except BaseException:
        memory.release()
        raise
    found = {name: (seen.get[f"min {n}"], seen.get[f"max {n}"]) for n, name in enumerate(ordered)}
    known = {name: pair for name, pair in found.items() if pair[0] is not None}
    bounds = {n: (_literal(low, kinds[n]), _literal(high, kinds[n])) for n, (low, high) in known.items()}
    return Held(frame, count, bounds, memory)


def _literal(value: Any, kind: DataType) -> Any:
    """A value as Spark takes it; a literal, because Delta skips no files by a value that must be computed first."""
    text = LITERALS.get(type(kind))
    return value if text is None else F.expr(text.format(value))


def within(bounds: KeyBounds, alias: str) -> Column:
    """Return the condition that an aliased row's columns lie within the bounds."""
    edges = [(F.col(f"{alias}.`{name}`"), low, high) for name, (low, high) in bounds.items()]
    return reduce(and_, [(c >= F.lit(low)) & (c <= F.lit(high)) for c, low, high in edges], F.lit(True))
