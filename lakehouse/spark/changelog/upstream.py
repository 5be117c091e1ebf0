"""The tables that a table reads, as its batches read them: their changes per event, and their rows before those."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.kafka.covers import NextOffsets
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.batch_cache import NO_BATCH
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog.changefeed import per_event
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.history import present_logic
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import LookUp, OpenLake, OpenTable
from lakehouse.spark.stream.table_join import UpstreamTables


def open_lake(
    spark: SparkSession, layout: Layout, facts: dict[type, Any] | None = None, look_up_schema: LookUp | None = None
) -> OpenLake:
    """Return a lake, of which a session can read all tables. facts, look_up_schema: see `OpenLake`."""
    return OpenLake(spark, layout, {} if facts is None else facts, UpstreamReader, look_up_schema)


@dataclass(frozen=True, slots=True)
class UpstreamReader(UpstreamTables):
    """The live tables between two ticks, (after_tick, to_tick].

    cut: which records count, if not all do. rebuilt: see `TableInput`; reads from the first tick on are always rebuilt.
    loads: the reader takes rows out again, and begins with none: the rows with which a table was restored are its first
    changes. skip: the offsets that the reader covers, see `is_skipped`.
    """

    lake: OpenLake
    after_tick: int
    to_tick: int
    cut: Cut | None = None
    rebuilt: bool = False
    loads: bool = False
    skip: str | None = None

    def changes(self, table: Table) -> DataFrame:
        """See `UpstreamTables`."""
        upstream_table, is_rebuilt = self._upstream_table(table), self._is_rebuilt
        make_changes = partial(
            per_event, upstream_table, self.after_tick, self.to_tick, cut=self.cut, numbered=True, rebuilt=is_rebuilt
        )
        changes = self.lake.cache.make_once(
            self.lake.spark, table, self.after_tick, self.to_tick, make_changes, rebuilt=is_rebuilt
        )
        if not (self.loads and self.after_tick == NO_TICK) or upstream_table.read_skipped_offsets() is None:
            return changes
        restored_rows = self._rows_before(upstream_table).withColumns(
            {"_tombstone": F.lit(False), "_event_time_ms": F.unix_millis("_event_time"), "_number": F.lit(0)}
        )
        column_names = [
            *(column.name for column in table.columns),
            "_tombstone",
            "_event_time_ms",
            "_position",
            "_number",
        ]
        return changes.select(*column_names).unionByName(restored_rows.select(*column_names))

    def rows(self, table: Table, keys: DataFrame | None) -> DataFrame | None:
        """See `UpstreamTables`."""
        open_table = self._upstream_table(table)
        if self.after_tick == NO_TICK and (self.loads or open_table.read_skipped_offsets() is None):
            return None
        if self._is_rebuilt and self.after_tick < present_logic.present_since(open_table):
            open_table = present_logic.with_present_logic(open_table)
        visible_rows = self._rows_before(open_table)
        return visible_rows if keys is None else _restrict_to_keys(table, visible_rows, keys)

    def history(self, table: Table, keys: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """See `UpstreamTables`."""
        whole_history = replace(self, lake=replace(self.lake, cache=NO_BATCH), after_tick=NO_TICK)
        changes = (
            whole_history.changes(table)
            if self.skip is None
            else whole_history._changes_covered_first(table, self.skip)
        )
        return _restrict_to_keys(table, changes, keys), whole_history.rows(table, keys)

    def _changes_covered_first(self, table: Table, skip: str) -> DataFrame:
        """Return all changes of a table up to the last tick; those by covered records in tick 0, as in `TableInput`."""
        covers: NextOffsets = json.loads(skip)
        complete_tick, position = self.lake.progress(self.lake.bronze).tick, F.col("_position")
        is_covered, known_offsets = F.lit(False), dict[str, Mapping[str, int]]()
        for topic in table.stream.topics:
            for topic_id in bronze.next_offsets(self.lake, topic, complete_tick):
                known_offsets[topic_id] = covers.get(topic_id, {})
                for partition, offset in known_offsets[topic_id].items():
                    in_partition = (position["topic"] == topic) & (position["partition"] == int(partition))
                    is_covered |= in_partition & (position["offset"] < offset)
        # If a later tick has some of them, it is read as well.
        has_all = bronze.has_all_records(self.lake, table.stream.topics, known_offsets, self.to_tick)
        changes = replace(self, to_tick=self.to_tick if has_all else complete_tick).changes(table)
        covered_tick = F.when(is_covered, F.lit(NO_TICK)).otherwise(position["tick"]).cast("bigint")
        changes = changes.withColumn("_position", position.withField("tick", covered_tick))
        return changes.where(F.col("_position.tick") <= self.to_tick)

    def hold(self, frame: DataFrame) -> DataFrame:
        """See `UpstreamTables`."""
        return self.lake.cache.hold(frame)

    def _rows_before(self, open_table: OpenTable) -> DataFrame:
        """Return the visible rows before the first of the ticks."""
        return Past(open_table).visible_rows(
            Cut(self.after_tick) if self.cut is None else replace(self.cut, tick=self.after_tick)
        )

    @property
    def _is_rebuilt(self) -> bool:
        return self.rebuilt or self.after_tick == NO_TICK or self.lake.layout.beside is not None

    def _upstream_table(self, table: Table) -> OpenTable:
        """Return the live table, or the one that will be live when the reader is, see `OpenLake.open_upstream`."""
        return self.lake.open_upstream(table)


def _restrict_to_keys(table: Table, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows, or changes, of these keys."""
    return rows.alias("b").join(keys.distinct().alias("k"), same_key(table.key, "b", "k"), "left_semi")
