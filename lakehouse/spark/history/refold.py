"""Rebuilds some rows of a table from bronze: those of the keys that an intervention touches.

The refold begins from nothing, or from the rows with which a table was restored. It reads the stream's whole history
with the interventions up to then, decides which records are late as the live table did, and folds the touched groups at
the original positions. Late records that were taken in after all are not late for any window; fixed records may be late
at their place, and move no clock. Records that a restored table holds already are left out, fixed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze.interventions import Intervention, read_fixed_records, read_intervention_records
from lakehouse.spark.fold.clock import ALWAYS_MS, with_stream_time
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.table_fold import TableFold
from lakehouse.spark.fold.visibility import is_final
from lakehouse.spark.history import anchors, cut_filter, table_clock
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table.input import drop_skipped, input_of
from lakehouse.spark.table.late import PLACE

IDENTITY = ("topic_id", "partition", "offset")
PLACE_OF_RECORD = ("tick", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class RefoldedRows:
    """The new rows of the touched keys; `keys` are these keys, in the columns `names`."""

    names: tuple[str, ...]
    keys: DataFrame
    rows: DataFrame


def refold_touched(
    open_table: OpenTable,
    table_fold: TableFold,
    interventions: list[Intervention],
    intervention: Intervention,
    cut: Cut,
) -> RefoldedRows:
    """Refold the rows that an intervention touches.

    interventions: all of the table's. cut: which records count; its tick is ignored. No row is removed because it
    expired, or because its final result is out.
    """
    return _Refold(open_table, table_fold, interventions, intervention, cut).refold()


def latest_time(
    open_table: OpenTable, table_fold: TableFold, interventions: list[Intervention], intervention: Intervention
) -> int | None:
    """Return the largest event time (milliseconds) of the records that an intervention names; None if there are none.

    interventions: all of the table's.
    """
    return _Refold(open_table, table_fold, interventions, intervention, Cut(intervention.at)).latest_time()


class _Refold:
    """One intervention in a table, and those before it."""

    def __init__(
        self,
        open_table: OpenTable,
        table_fold: TableFold,
        interventions: list[Intervention],
        intervention: Intervention,
        cut: Cut,
    ) -> None:
        self._open_table, self._table, self._fold = open_table, open_table.table, table_fold
        self._intervention, self._cut = intervention, cut
        # Without those that a revert took back: their records must not come back with another intervention.
        self._interventions = interventions_in_effect(interventions, intervention.at)
        self._input = replace(
            input_of(open_table), forced_places=self._read_forced_places(), cut=None if cut.is_whole else cut
        )

    def refold(self) -> RefoldedRows:
        records, time_condition = self._judged_records(), cut_filter.is_in_time(self._cut)
        records = records if time_condition is None else records.where(time_condition)
        touched_keys = self._fold.touched_keys(_affected(records, self._affected_records()))
        if self._intervention.kind == "late" and meeting_streams(self._table.stream):
            touched_keys = touched_keys.unionByName(self._fold.touched_keys(self._vanished_records(records)))
        if self._intervention.kind == "fixed":
            # Rows in which they counted before, by an earlier fix or a schema that fits, are folded without them.
            touched_keys = touched_keys.unionByName(self._fold.touched_keys(self._records_before_fix()))
        touched_keys = touched_keys.distinct().persist()
        group_columns, column_names = self._table.group, tuple(touched_keys.columns)
        group_keys = touched_keys.select(*group_columns).distinct()
        base_rows = (
            _rows_of_keys(_read_restored_rows(self._open_table), group_keys, group_columns)
            if self._input.skip
            else None
        )
        refolded_rows = self._fold.rows_after(base_rows, _rows_of_keys(records, group_keys, group_columns))
        return RefoldedRows(
            column_names,
            touched_keys,
            _rows_of_keys(refolded_rows, touched_keys, column_names)
            if column_names != group_columns
            else refolded_rows,
        )

    def latest_time(self) -> int | None:
        """See the function of this name."""
        named_records = _affected(self._judged_records(), self._affected_records())
        row = named_records.agg(F.max("rowtime")).first()
        return None if row is None else row[0]

    def _judged_records(self) -> DataFrame:
        """Return the records that reached the table up to the intervention, with the interventions in effect."""
        table = self._table
        fixed_rows = read_fixed_records(self._open_table.lake, self._interventions)
        fixed_rows = None if fixed_rows is None else drop_skipped(self._counting_rows(fixed_rows), self._input.skip)

        def with_fixes(bronze_rows: DataFrame) -> DataFrame:
            return (
                self._counting_rows(bronze_rows)
                if fixed_rows is None
                else replace_fixed(self._counting_rows(bronze_rows), fixed_rows)
            )

        records = self._stream_records(with_fixes)
        first_clock = table_clock.clock_at(self._open_table, NO_TICK)
        if first_clock is None:
            return records
        forced_places = self._input.forced_places
        if fixed_rows is None:
            # The pairs of a record that was too late for a join did not arrive together with it.
            joins_forced = forced_places is not None and bool(meeting_streams(table.stream))
            records = (
                mark_taken_in(records, forced_places, "_forced")
                if joins_forced and forced_places is not None
                else records
            )
            records = with_stream_time(
                table, records, first_clock, moves=F.col("_forced").isNull() if joins_forced else None
            )
            records = records.drop("_forced")
        else:
            records = mark_places(records, fixed_rows, PLACE_OF_RECORD, "_fixed")
            records = with_stream_time(table, records, first_clock, moves=F.col("_fixed").isNull()).drop("_fixed")
            # Before a partition's first other record there is no stream time for which a fixed record could be late.
            records = records.withColumn("_horizon", F.coalesce("_horizon", F.lit(ALWAYS_MS)))
        if forced_places is None:
            return records
        records = mark_taken_in(records, forced_places, "_forced")
        horizon = F.when(F.col("_forced").isNotNull(), F.lit(ALWAYS_MS)).otherwise(F.col("_horizon"))
        return records.withColumn("_horizon", horizon).drop("_forced")

    def _read_forced_places(self) -> DataFrame | None:
        """Return the places of late records that were taken in after all, each with the tick of that; None for none."""
        late_interventions = [intervention for intervention in self._interventions if intervention.kind == "late"]
        late_records = read_intervention_records(self._open_table.lake, late_interventions)
        if late_records is None:
            return None
        intervention_ticks = self._open_table.lake.spark.createDataFrame(
            [(late_intervention.id, late_intervention.at) for late_intervention in late_interventions],
            "id string, at bigint",
        )
        return late_records.select("id", *PLACE).join(F.broadcast(intervention_ticks), "id").drop("id")

    def _vanished_records(self, records: DataFrame) -> DataFrame:
        """Return the records that late ones removed from the stream by their matches in a join: the padded ones."""
        earlier_places = self._earlier_forced_places()
        earlier_input = replace(self._input, select_rows=self._counting_rows, forced_places=earlier_places)
        earlier_records = earlier_input.records(self._fold, None, NO_TICK, self._intervention.at)
        place_columns = [F.col(f"_position.{name}").alias(f"_{name}") for name in PLACE_OF_RECORD]
        column_names = (*self._table.group, "rowtime", *[f"_{name}" for name in PLACE_OF_RECORD])
        present_records = records.select("*", *place_columns).select(*column_names).distinct().alias("k")
        gone_records = (
            earlier_records.select("*", *place_columns)
            .alias("r")
            .join(present_records, same_key(column_names, "r", "k"), "left_anti")
        )
        return gone_records.withColumn("_horizon", F.lit(ALWAYS_MS))

    def _earlier_forced_places(self) -> DataFrame | None:
        forced_places = self._input.forced_places
        return None if forced_places is None else forced_places.where(F.col("at") < self._intervention.at)

    def _records_before_fix(self) -> DataFrame:
        """Return the fixed records as they counted before the fix; bad records did not. No record is late here."""
        own_fixes = read_fixed_records(self._open_table.lake, [self._intervention])
        assert own_fixes is not None
        fixed_identities = F.broadcast(own_fixes.select(*IDENTITY).distinct())
        earlier_fixes = read_fixed_records(
            self._open_table.lake,
            [intervention for intervention in self._interventions if intervention.at < self._intervention.at],
        )
        if earlier_fixes is not None:
            earlier_fixes = drop_skipped(earlier_fixes, self._input.skip)
            earlier_fixes = earlier_fixes.join(fixed_identities, list(IDENTITY), "left_semi").select(
                *earlier_fixes.columns
            )

        def with_earlier_fixes(bronze_rows: DataFrame) -> DataFrame:
            bronze_rows = bronze_rows.join(fixed_identities, list(IDENTITY), "left_semi").select(*bronze_rows.columns)
            bronze_rows = bronze_rows if earlier_fixes is None else replace_fixed(bronze_rows, earlier_fixes)
            return self._counting_rows(bronze_rows)

        return self._stream_records(with_earlier_fixes).withColumn("_horizon", F.lit(ALWAYS_MS))

    def _affected_records(self) -> Column | DataFrame:
        """Return the records that the intervention names: a condition on them, or their places."""
        if self._intervention.kind == "refold":
            return _in_range(self._table, self._intervention)
        intervention_records = read_intervention_records(self._open_table.lake, [self._intervention])
        assert intervention_records is not None
        return intervention_records.select(
            *(PLACE if self._intervention.kind == "late" else PLACE_OF_RECORD)
        ).distinct()

    def _counting_rows(self, bronze_rows: DataFrame) -> DataFrame:
        """Return the rows of bronze that count, or that decide whether others are late."""
        return cut_filter.rows_before_offsets(self._cut, bronze_rows)

    def _stream_records(self, select_rows: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Return all records of these rows of bronze that reached the table up to the intervention."""
        return replace(self._input, select_rows=select_rows).records(self._fold, None, NO_TICK, self._intervention.at)


def restored_rows(open_table: OpenTable) -> DataFrame | None:
    """Return the rows with which a restored table began; None for a table that was built from bronze.

    Raises NotFound if they are gone: this lake's bronze lacks the records from before the restore.
    """
    return None if open_table.read_skipped_offsets() is None else _read_restored_rows(open_table)


def check_restored_rows(open_table: OpenTable) -> None:
    """Raise an error if a restored table lacks the rows onto which a repair would fold.

    NotFound if they are gone; PlanError for final results: of a window that had closed before the restore the table has
    only the result, and if HAVING hid it, not even that.
    """
    if open_table.read_skipped_offsets() is not None and is_final(open_table.table):
        raise PlanError(
            f"table {open_table.name!r} has final results and was restored from a topic: what its windows had before "
            "that is in no bronze of this lake, so a late or a fixed record can't be taken in. Put it right "
            "in the lake that published, and restore again; or build the table from bronze, in a lake that has all "
            "records."
        )
    restored_rows(open_table)


def _read_restored_rows(open_table: OpenTable) -> DataFrame:
    first_anchor = anchors.nearest_anchor(open_table, Cut(NO_TICK))
    if first_anchor is None:
        raise NotFound(
            f"table {open_table.name!r} was restored from a topic, and its restored rows are no longer kept: this "
            "lake's bronze does not have what came before, so nothing of it can be rebuilt. `lakehouse repair revert` "
            "takes it back to a version; or restore it again, into another lake."
        )
    return first_anchor.rows


def drop_fixed(bronze_rows: DataFrame, fixed_rows: DataFrame) -> DataFrame:
    """Return the rows of bronze without the originals of fixed rows."""
    return bronze_rows.join(F.broadcast(fixed_rows.select(*IDENTITY).distinct()), list(IDENTITY), "left_anti").select(
        *bronze_rows.columns
    )


def replace_fixed(bronze_rows: DataFrame, fixed_rows: DataFrame) -> DataFrame:
    """Return the rows of bronze, with the fixed rows in place of the originals."""
    return drop_fixed(bronze_rows, fixed_rows).unionByName(fixed_rows)


def _in_range(table: Table, intervention: Intervention) -> Column:
    condition = F.lit(True)
    first_ms, last_ms = intervention.details.get("first_ms"), intervention.details.get("last_ms")
    if first_ms is not None:
        condition &= F.col("rowtime") >= first_ms
    if last_ms is not None:
        condition &= F.col("rowtime") <= last_ms
    if (offsets := intervention.details.get("offsets")) is not None:
        in_offsets = F.lit(False)
        for topic, partition_ranges in offsets.items():
            for partition, (begin, end) in partition_ranges.items():
                in_partition = (F.col("_position.topic") == topic) & (F.col("_position.partition") == int(partition))
                in_offsets |= in_partition & F.col("_position.offset").between(begin, end)
        condition &= in_offsets
    return condition


def _affected(records: DataFrame, affected: Column | DataFrame) -> DataFrame:
    """Return the records that meet a condition, or lie at these places."""
    if isinstance(affected, Column):
        return records.where(affected)
    if "ordinals" in affected.columns:
        marked_records = mark_taken_in(records, affected, "_chosen")
    else:
        marked_records = mark_places(records, affected, PLACE_OF_RECORD, "_chosen")
    return marked_records.where("_chosen").drop("_chosen")


def mark_places(records: DataFrame, place_rows: DataFrame, column_names: tuple[str, ...], mark: str) -> DataFrame:
    """Return the records with a mark: true for those whose places are in `place_rows`, else null."""
    marked_places = F.broadcast(place_rows.select(*column_names).distinct().withColumn(mark, F.lit(True))).alias("p")
    same_place = [F.col(f"r._position.{name}") == F.col(f"p.{name}") for name in column_names]
    return records.alias("r").join(marked_places, same_place, "left").select("r.*", f"p.{mark}")


def mark_taken_in(records: DataFrame, place_rows: DataFrame, mark: str) -> DataFrame:
    """Return the records with a mark: true for late ones at these places, and for their pairs, else null.

    A row that comes out of a join has the ordinals of the record that made it, and more. One record may be in
    `place_rows` several times: too late for the join, and the row that it made there too late for a window.
    """
    marked_places = place_rows.groupBy(*PLACE_OF_RECORD).agg(F.collect_set("ordinals").alias("_begin"))
    same_place = [F.col(f"r._position.{name}") == F.col(f"p.{name}") for name in PLACE_OF_RECORD]
    own_ordinals = F.col("r._position.ordinals")
    begins_with_place = F.exists(
        "p._begin", lambda first_ordinals: F.slice(own_ordinals, F.lit(1), F.size(first_ordinals)) == first_ordinals
    )
    joined_records = records.alias("r").join(F.broadcast(marked_places).alias("p"), same_place, "left")
    return joined_records.select("r.*", F.when(begins_with_place, F.lit(True)).alias(mark))


def _rows_of_keys(rows: DataFrame, keys: DataFrame, column_names: tuple[str, ...]) -> DataFrame:
    return rows.alias("r").join(keys.alias("k"), same_key(column_names, "r", "k"), "left_semi")
