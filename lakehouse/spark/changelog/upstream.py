"""The tables that a table reads, as its batches read them: their changes per event, and their rows before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.changelog.changefeed import per_event
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.operators.aggregates import same_key
from lakehouse.spark.operators.joined import Tables
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table.input import input_of


@dataclass(frozen=True, slots=True)
class Upstream(Tables):
    """The live tables between two ticks, (after, to]. cut: which records count, if not all do."""

    lake: OpenLake
    after: int
    to: int
    cut: Cut | None = None

    def changes(self, table: Table) -> DataFrame:
        """See `Tables`."""
        return per_event(self._live(table), self.after, self.to, cut=self.cut, numbered=True)

    def rows(self, table: Table, keys: DataFrame) -> DataFrame | None:
        """See `Tables`."""
        if self.after == NO_TICK and input_of(self._live(table)).skip is None:
            return None
        cut = Cut(self.after) if self.cut is None else replace(self.cut, tick=self.after)
        rows = Past(self._live(table)).visible(cut).alias("b")
        return rows.join(keys.distinct().alias("k"), same_key(table.key, "b", "k"), "left_semi")

    def _live(self, table: Table) -> OpenTable:
        """A table that is built beside the live one reads the live ones, as it will when it is swapped in."""
        return self.lake.live.open(table)
