"""The smallest and the largest key of a batch: so that Delta reads only the files that can hold such keys.

Where a batch's keys lie together (the newest windows, neighbouring keys), its cost then does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType

Bounds = dict[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Held:
    """A frame that is held in memory, its number of rows, and the bounds of its keys. Its owner unpersists it."""

    frame: DataFrame
    count: int
    bounds: Bounds


def held(frame: DataFrame, names: Iterable[str]) -> Held:
    """Hold a frame in memory, with the bounds of these columns, where they have an order.

    A column with a null has none: no file could be left out for it.
    """
    kinds = {field.name: field.dataType for field in frame.schema}
    ordered = [n for n in names if isinstance(kinds[n], AtomicType) and not isinstance(kinds[n], BinaryType)]
    seen, wanted = Observation(), [F.count(F.lit(1)).alias("rows")]
    for number, name in enumerate(ordered):
        whole = F.count_if(F.col(f"`{name}`").isNull()) == 0
        wanted += [F.when(whole, edge(f"`{name}`")).alias(f"{edge.__name__} {number}") for edge in (F.min, F.max)]
    frame = frame.observe(seen, *wanted).persist()
    count = frame.count()
    found = {name: (seen.get[f"min {n}"], seen.get[f"max {n}"]) for n, name in enumerate(ordered)}
    return Held(frame, count, {name: pair for name, pair in found.items() if pair[0] is not None})


def within(bounds: Bounds, alias: str) -> Column:
    """Return the condition that an aliased row's columns lie within the bounds."""
    edges = [(F.col(f"{alias}.`{name}`"), low, high) for name, (low, high) in bounds.items()]
    return reduce(and_, [(c >= F.lit(low)) & (c <= F.lit(high)) for c, low, high in edges], F.lit(True))
