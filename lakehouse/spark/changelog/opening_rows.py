"""The rows from which a changelog begins: those that a table keeps at a tick, with the keys that later records touch.

A read skips files that can't hold such keys, as MERGE does: the cost of publishing a batch does not grow with the table
if the batch's keys, or windows, lie together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.fold.bounds import KeyBounds, hold_with_bounds, is_within
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.visibility import closes_after
from lakehouse.spark.history import table_clock
from lakehouse.spark.history.moments import Past
from lakehouse.spark.jvm.delta_log import newest_snapshot
from lakehouse.spark.open_lake import OpenTable

SMALL_BYTES = 8 << 20  # some hundred thousand rows


class ChangelogBase:
    """The rows that a table keeps at a tick. `is_empty`: it keeps none yet, and `rows` must not be read."""

    def __init__(
        self, open_table: OpenTable, cut: Cut, to_tick: int, skip: str | None, clock: ClockState | None
    ) -> None:
        """cut: the tick, and which records up to it count. to_tick: the last tick of the changelog.

        clock: the table's clock at the first one.
        """
        self._open_table, self._table, self._cut, self._clock = open_table, open_table.table, cut, clock
        self._to_tick = to_tick
        self.is_empty = cut.tick == NO_TICK and not skip

    @cached_property
    def rows(self) -> DataFrame:
        """All rows."""
        return Past(self._open_table).read_state(self._cut).rows

    def touched_rows(self, records: DataFrame, *, reads_all_files: bool = False) -> DataFrame | None:
        """See `OpeningRows`.

        reads_all_files: skip no files, since the records are too expensive to compute once more for that.
        """
        if self.is_empty:
            return None
        key_columns = self._table.key
        base_rows = self.rows.alias("b").where(
            is_within({} if reads_all_files else self._bounds(records, key_columns), "b")
        )
        return base_rows.join(
            records.select(*key_columns).distinct().alias("k"), same_key(key_columns, "b", "k"), "left_semi"
        )

    def near_rows(
        self, records: DataFrame, column_names: Iterable[str], condition: Callable[[KeyBounds], Column]
    ) -> DataFrame | None:
        """See `OpeningRows`."""
        return None if self.is_empty else self.rows.alias("t").where(condition(self._bounds(records, column_names)))

    def closing_rows(self) -> DataFrame | None:
        """See `OpeningRows`."""
        if self.is_empty:
            return None
        clocks = (self._clock, table_clock.clock_at(self._open_table, self._to_tick))
        old_watermark, new_watermark = (None if clock is None else clock.watermark for clock in clocks)
        if new_watermark is None:
            return self.rows.limit(0)
        close_delay = closes_after(self._table)
        rows = self.rows.where(F.col("window_end") <= F.timestamp_millis(F.lit(new_watermark - close_delay)))
        if old_watermark is None:
            return rows
        return rows.where(F.col("window_end") > F.timestamp_millis(F.lit(old_watermark - close_delay)))

    def _bounds(self, records: DataFrame, column_names: Iterable[str]) -> KeyBounds:
        """Return the bounds of the records' keys; none for a small table, since they cost a pass over the records."""
        total_bytes = newest_snapshot(self._open_table.spark, self._open_table.state.path).total_bytes
        if total_bytes is not None and total_bytes < SMALL_BYTES:
            return {}
        column_names = list(column_names)
        held_frame = hold_with_bounds(records.select(*column_names), column_names)
        held_frame.memory.release()
        return held_frame.bounds
