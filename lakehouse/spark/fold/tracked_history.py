"""The fold of a history that tracks some columns: one row for a run of points that say the same in them.

The table keeps each point, as a history without `track` has it: a late record can part a run, and needs the order, or
the accumulators, of a point within it. The first point of a run is shown, until the end of the run. The columns beside
those of the points' own fold, in the state only:

    _point_end    when the point itself ends: `valid_to` is that of the run, if the point is shown
    _is_repeated  the point says the same as the one before it, and is not shown

A batch changes the points from its first record of a key on. All runs that reach there are made anew: of these the
state gives the first point, those that end at that time or later, and none between, since nothing changes there.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.plan.operator import VALID_FROM, VALID_TO, RowHistory
from lakehouse.spark.content import row_image
from lakehouse.spark.fold.bounds import is_within
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.table_fold import BatchInput, FoldedRows, OpeningRows, ReadRows, TableFold

END, IS_REPEATED = "_point_end", "_is_repeated"
STATE_COLUMNS = (END, IS_REPEATED)


class TrackedHistoryFold(TableFold):
    """The runs of another fold's points."""

    def __init__(self, points_fold: TableFold) -> None:
        """points_fold: of the same table; its rows are the points, and their ends."""
        super().__init__(points_fold.table, points_fold.forms)
        self._points_fold = points_fold
        own_columns = f"{END} timestamp, {IS_REPEATED} boolean"
        self.state_columns = ", ".join(filter(None, (points_fold.state_columns, own_columns)))
        self.shows_one_record = points_fold.shows_one_record

    @property
    def bound_columns(self) -> tuple[str, ...]:
        return self._points_fold.bound_columns

    @property
    def judges_lateness(self) -> bool:
        return self._points_fold.judges_lateness

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return self._points_fold.visible_fields(stream_rows)

    def has_null_key(self, stream_rows: DataFrame) -> Column:
        return self._points_fold.has_null_key(stream_rows)

    def take_records(self, stream_rows: DataFrame, *, units: bool) -> DataFrame:
        return self._points_fold.take_records(stream_rows, units=units)

    def with_lateness(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        return self._points_fold.with_lateness(records, read_rows)

    def fold_batch(self, batch: BatchInput) -> FoldedRows:
        points_batch = replace(batch, read_rows=lambda: _as_points(batch.read_rows()))
        folded_points = self._points_fold.fold_batch(points_batch)
        group = self.table.group
        key_bounds = {name: batch.bounds[name] for name in group if name in batch.bounds}
        first_times = batch.records.groupBy(*group).agg(F.timestamp_millis(F.min("rowtime")).alias("_first"))
        valid_to = F.col(f"t.{VALID_TO}")
        reaches = valid_to.isNull() | (valid_to >= F.col("g._first"))
        kept_rows = batch.read_rows().alias("t").where(is_within(key_bounds, "t"))
        kept_rows = kept_rows.join(first_times.alias("g"), same_key(group, "t", "g") & reaches).select(
            "t.*", "g._first"
        )
        return replace(folded_points, rows=self._changed_runs(folded_points.rows, kept_rows))

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        points = self._points_fold.rows_after(None if rows is None else _as_points(rows), records)
        points = points.withColumn("_is_gone", F.lit(False)).withColumn("_is_detached", F.lit(False))
        return self._with_runs(points).drop("_is_gone", "_is_detached")

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        raise NotImplementedError  # the plan refuses what reads them

    def is_shown(self) -> Column:
        return self._points_fold.is_shown() & ~F.col(IS_REPEATED)

    def _changed_runs(self, changed_points: DataFrame, kept_rows: DataFrame) -> DataFrame:
        """Return the rows that changed points change. kept_rows: those that the runs are made of, with `_first`."""
        key = self.table.key
        names = [name for name in changed_points.columns if name not in (*key, "_tombstone")]
        kept_marks = (
            F.struct(VALID_TO, IS_REPEATED).alias("_kept"),
            (F.col(END) < F.col("_first")).alias("_is_detached"),
        )
        kept_points = kept_rows.select("*", *kept_marks).withColumn(VALID_TO, F.col(END))
        joined = kept_points.alias("k").join(changed_points.alias("n"), same_key(key, "k", "n"), "full_outer")
        is_new = F.col("n._tombstone").isNotNull()
        points = joined.select(
            *[F.coalesce(f"n.`{name}`", f"k.`{name}`").alias(name) for name in key],
            *[F.when(is_new, F.col(f"n.`{name}`")).otherwise(F.col(f"k.`{name}`")).alias(name) for name in names],
            "k._kept",
            is_new.alias("_is_new"),
            F.coalesce("n._tombstone", F.lit(False)).alias("_is_gone"),
            F.coalesce(~is_new & F.col("k._is_detached"), F.lit(False)).alias("_is_detached"),
        )
        rows = self._with_runs(points)
        is_same = F.struct(VALID_TO, IS_REPEATED).eqNullSafe(F.col("_kept"))
        rows = rows.where(F.col("_is_new") | ~is_same).withColumn("_tombstone", F.col("_is_gone"))
        return rows.drop("_kept", "_is_new", "_is_gone", "_is_detached")

    def _with_runs(self, points: DataFrame) -> DataFrame:
        """Return points as rows of the state: `_point_end` has their own end, `valid_to` that of the run if shown.

        Points that are gone count for nothing. A detached point is the first of a run whose next points are not among
        these.
        """
        assert isinstance(self.table.fold, RowHistory)
        assert self.table.fold.track is not None
        group = self.table.group
        points = points.withColumn(END, F.col(VALID_TO))
        by_time = Window.partitionBy(*group).orderBy(VALID_FROM)
        counts, is_row = ~F.col("_is_gone"), self._points_fold.is_shown()
        image = row_image(points, self.table.fold.track)
        points = points.withColumn("_image", F.when(counts & is_row, image))
        point_struct = F.when(counts, F.struct("_image", END, "_is_detached"))
        before = F.last(point_struct, ignorenulls=True).over(by_time.rowsBetween(Window.unboundedPreceding, -1))
        points = points.withColumn("_before", before)
        is_next = (F.col(f"_before.{END}") == F.col(VALID_FROM)) | F.col("_before._is_detached")
        is_repeated = is_row & is_next & (F.col("_before._image") == F.col("_image"))
        points = points.withColumn(IS_REPEATED, F.coalesce(is_repeated, F.lit(False)) & counts)
        begins = F.count_if(counts & ~F.col(IS_REPEATED)).over(by_time)
        points = points.withColumn("_run", begins)
        run = Window.partitionBy(*group, "_run").orderBy(VALID_FROM)
        whole_run = run.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        run_end = F.last(F.when(counts, F.struct(END)), ignorenulls=True).over(whole_run)
        is_head = counts & is_row & ~F.col(IS_REPEATED)
        points = points.withColumn(VALID_TO, F.when(is_head, run_end[END]).otherwise(F.col(END)))
        return points.drop("_image", "_before", "_run")


def _as_points(rows: DataFrame) -> DataFrame:
    """Return rows of the state as those of the points' own fold."""
    return rows.withColumn(VALID_TO, F.col(END)).drop(*STATE_COLUMNS)
