"""The rows that a changelog begins from: what a table keeps at a tick, of the keys that the later records touch.

Files that can't hold such keys are skipped, as in a MERGE: the cost of publishing a batch does not grow with the table
if the batch's keys, or windows, lie together.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.delta_log import newest_snapshot
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators import keyed
from lakehouse.spark.operators.aggregates import same_key
from lakehouse.spark.operators.bounds import KeyBounds, hold_with_bounds, is_within
from lakehouse.spark.operators.clock import ClockState
from lakehouse.spark.operators.shown import closes_after
from lakehouse.spark.past import past
from lakehouse.spark.past.moments import Past

SMALL_BYTES = 8 << 20  # some hundred thousand rows


class ChangelogBase:
    """What a table keeps at a tick. `nothing`: it has nothing yet, and no frame may be asked for."""

    def __init__(self, open_table: OpenTable, cut: Cut, skip: str | None, clock: ClockState | None) -> None:
        """at: the tick, and which of the records up to it count. clock: the table's clock at that tick."""
        self._opened, self._table, self._at, self._clock = open_table, open_table.table, cut, clock
        self.nothing = cut.tick == NO_TICK and not skip

    @cached_property
    def rows(self) -> DataFrame:
        """All of it."""
        return Past(self._opened).state(self._at).rows

    def touched(self, records: DataFrame, *, anywhere: bool = False) -> DataFrame | None:
        """Return the rows whose keys, windows too, are among the records'; None if there is nothing yet.

        anywhere: the records are too expensive to compute once more just to skip files.
        """
        if self.nothing:
            return None
        key_columns = self._table.key
        base_rows = self.rows.alias("b").where(is_within({} if anywhere else self._bounds(records, key_columns), "b"))
        return base_rows.join(
            records.select(*key_columns).distinct().alias("k"), same_key(key_columns, "b", "k"), "left_semi"
        )

    def reached(self, records: DataFrame) -> DataFrame | None:
        """Return the rows that the records may change by the rules in Python, and some more; None if there are none."""
        if self.nothing:
            return None
        column_names = [*self._table.group, "_time"]
        return self.rows.alias("t").where(keyed.may_change(self._table, self._bounds(records, column_names)))

    def closing(self, to_tick: int) -> DataFrame | None:
        """Return the rows of the windows that close by a later tick; None if there is nothing yet."""
        if self.nothing:
            return None
        clocks = (self._clock, past.clock_at(self._opened, to_tick))
        old_watermark, new_watermark = (None if clock is None else clock.watermark for clock in clocks)
        if new_watermark is None:
            return self.rows.limit(0)
        close_delay = closes_after(self._table)
        rows = self.rows.where(F.col("window_end") <= F.timestamp_millis(F.lit(new_watermark - close_delay)))
        if old_watermark is None:
            return rows
        return rows.where(F.col("window_end") > F.timestamp_millis(F.lit(old_watermark - close_delay)))

    def _bounds(self, records: DataFrame, column_names: Iterable[str]) -> KeyBounds:
        """The bounds of the records' keys; none for a small table: they cost a pass over the records."""
        checksum = newest_snapshot(self._opened.spark, self._opened.state.path).checksumOpt()
        if checksum.isDefined() and checksum.get().tableSizeBytes() < SMALL_BYTES:
            return {}
        column_names = list(column_names)
        held_frame = hold_with_bounds(records.select(*column_names), column_names)
        held_frame.memory.release()
        return held_frame.bounds
