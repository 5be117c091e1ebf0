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
from lakehouse.spark.delta_log import snapshot
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators import keyed
from lakehouse.spark.operators.aggregates import same_key
from lakehouse.spark.operators.bounds import KeyBounds, held, within
from lakehouse.spark.operators.clock import ClockState
from lakehouse.spark.operators.shown import closes_after
from lakehouse.spark.past import past
from lakehouse.spark.past.moments import Past

SMALL_BYTES = 8 << 20  # some hundred thousand rows


class Begun:
    """What a table keeps at a tick. `nothing`: it has nothing yet, and no frame may be asked for."""

    def __init__(self, opened: OpenTable, at: Cut, skip: str | None, clock: ClockState | None) -> None:
        """at: the tick, and which of the records up to it count. clock: the table's clock at that tick."""
        self._opened, self._table, self._at, self._clock = opened, opened.table, at, clock
        self.nothing = at.tick == NO_TICK and not skip

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
        key = self._table.key
        rows = self.rows.alias("b").where(within({} if anywhere else self._bounds(records, key), "b"))
        return rows.join(records.select(*key).distinct().alias("k"), same_key(key, "b", "k"), "left_semi")

    def reached(self, records: DataFrame) -> DataFrame | None:
        """Return the rows that the records may change by the rules in Python, and some more; None if there are none."""
        if self.nothing:
            return None
        names = [*self._table.group, "_time"]
        return self.rows.alias("t").where(keyed.reach(self._table, self._bounds(records, names)))

    def closing(self, to: int) -> DataFrame | None:
        """Return the rows of the windows that close by a later tick; None if there is nothing yet."""
        if self.nothing:
            return None
        clocks = (self._clock, past.clock_at(self._opened, to))
        before, then = (None if clock is None else clock.watermark for clock in clocks)
        if then is None:
            return self.rows.limit(0)
        closes = closes_after(self._table)
        rows = self.rows.where(F.col("window_end") <= F.timestamp_millis(F.lit(then - closes)))
        if before is None:
            return rows
        return rows.where(F.col("window_end") > F.timestamp_millis(F.lit(before - closes)))

    def _bounds(self, records: DataFrame, names: Iterable[str]) -> KeyBounds:
        """The bounds of the records' keys; none for a small table: they cost a pass over the records."""
        checksum = snapshot(self._opened.spark, self._opened.state.path).checksumOpt()
        if checksum.isDefined() and checksum.get().tableSizeBytes() < SMALL_BYTES:
            return {}
        names = list(names)
        found = held(records.select(*names), names)
        found.memory.release()
        return found.bounds
