"""A table folded from bronze and the interventions alone."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakehouse.errors import NotFound
from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.in_memory import InMemory
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.fold import Counting
from lakehouse.spark.past import present
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table.input import input_of


def refolded(opened: OpenTable, tick: int) -> DataFrame:
    """Return the visible rows of a table at a tick that it has taken in, folded from bronze and the interventions.

    For any table, whatever it keeps beside its visible rows. Raises NotFound for one that was restored from a topic:
    what it began with is in no bronze.
    """
    if opened.skip:
        raise NotFound(
            f"table {opened.name!r} was restored from a topic: this lake's bronze does not have its restored rows, so "
            "it can't be folded from bronze."
        )
    return _shown(Past(opened).visible(Cut(tick), anchored=False))


def rebuilt(opened: OpenTable, tick: int) -> DataFrame:
    """Return the visible rows that a backfill would give, at a tick. Raises NotFound if a table above comes first."""
    return _shown(Past(present.from_nothing(opened)).visible(Cut(tick), anchored=False))


def too_late(opened: OpenTable, tick: int) -> int:
    """Return how many records came too late for the joins of a table's stream, up to a tick, by bronze."""
    holding: list[InMemory] = []
    counting = Counting(holding)
    try:
        input_of(opened).frame(NO_TICK, tick, counting).count()
        for memory in holding:
            memory.was_read()
        return counting.number_late()
    finally:
        for memory in holding:
            memory.release()


def _shown(made: DataFrame) -> DataFrame:
    return made.select(*[f"`{name}`" for name in made.columns if not name.startswith("_")])
