"""Folds a table from bronze and the interventions alone."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakehouse.errors import NotFound
from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.fold.fold import BatchCounter
from lakehouse.spark.history import present_logic
from lakehouse.spark.history.moments import Past
from lakehouse.spark.jvm.in_memory import InMemory
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table.input import input_of


def refold_visible_rows(open_table: OpenTable, tick: int) -> DataFrame:
    """Return the visible rows of a table at a tick that it has taken in, folded from bronze and the interventions.

    For any table, whatever it keeps beside its visible rows. Raises NotFound for a table that was restored from a
    topic: bronze does not have the rows with which it began.
    """
    if open_table.read_skipped_offsets():
        raise NotFound(
            f"table {open_table.name!r} was restored from a topic: this lake's bronze does not have its restored rows, "
            "so it can't be folded from bronze."
        )
    return _select_visible(Past(open_table, anchored=False).visible_rows(Cut(tick)))


def rebuild_visible_rows(open_table: OpenTable, tick: int) -> DataFrame:
    """Return the visible rows that a backfill would give, at a tick.

    Raises NotFound if an upstream table must be built first.
    """
    return _select_visible(Past(present_logic.from_nothing(open_table), anchored=False).visible_rows(Cut(tick)))


def count_too_late(open_table: OpenTable, tick: int) -> int:
    """Return how many records came too late for the joins of a table's stream, up to a tick, computed from bronze."""
    held_frames: list[InMemory] = []
    row_counter = BatchCounter(held_frames)
    try:
        input_of(open_table).frame(NO_TICK, tick, row_counter).count()
        for memory in held_frames:
            memory.finish_read()
        return row_counter.number_late()
    finally:
        for memory in held_frames:
            memory.release()


def _select_visible(frame: DataFrame) -> DataFrame:
    return frame.select(*[f"`{name}`" for name in frame.columns if not name.startswith("_")])
