"""The questions that Spark has about a table's fold. Each fold answers them in one class, in a file of its own:

    LatestFold         the last record of each key: `latest.py`
    LatestSentFold     the last value of each column that was sent: `latest.py`, too
    LatestByOrderFold  the last record by an order in the records (`order_by`): `latest_by_order.py`
    SqlFold            the common aggregates, without windows or in tumbling and hopping ones: `sql_aggregates.py`
    PythonFold         all other aggregates, by the rules of `lakehouse.semantics`: `python_aggregates.py`
    LatestHistoryFold, LatestByHistoryFold, AggregateHistoryFold
                       the rows that one of these had: `latest_history.py`, `aggregate_history.py`
    TrackedHistoryFold the runs of such rows that say the same in some columns: `tracked_history.py`

The records that reach a table have its key, and these columns:

    _in_<name>    an aggregation's input
    _part, _time  the partition whose clock the record moves (its own, if the frame names no other), and the time in
                  milliseconds that the clock takes from it
    _horizon, _watermark, _tail   see `lakehouse.spark.fold.clock`; only where the table has a clock
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame, Observation, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.plan.table import Table
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.fold.bounds import KeyBounds
from lakehouse.spark.fold.clock import ALWAYS_MS, with_stream_time
from lakehouse.spark.fold.failing import FailureCounter
from lakehouse.spark.fold.forms.aggregates import Form, same_key
from lakehouse.spark.fold.merge import RowMerge
from lakehouse.spark.jvm.in_memory import InMemory
from lakehouse.spark.nullable import make_nullable

ReadRows = Callable[[], DataFrame | None]


@dataclass(frozen=True, slots=True)
class BatchInput:
    """A batch of records that reach a table.

    bounds: of the columns that the fold names. read_rows: returns the rows that the table keeps now. failure_counter:
    counts the users' functions that fail. held_memory: collects the frames that are held in memory.
    """

    records: DataFrame
    bounds: KeyBounds
    read_rows: Callable[[], DataFrame]
    failure_counter: FailureCounter
    held_memory: list[InMemory]


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """One row for each touched row of the table; `_tombstone` for a row to delete.

    late_rows: the late records; None if none can be late. count_late: their number, once the rows were read.
    """

    rows: DataFrame
    late_rows: DataFrame | None = None
    count_late: Callable[[], int] = lambda: 0


class OpeningRows(Protocol):
    """The kept rows from which a changelog begins. Each method returns None if the table is empty there."""

    def touched_rows(self, records: DataFrame) -> DataFrame | None:
        """Return the rows whose keys, windows too, are among the records'."""

    def near_rows(
        self, records: DataFrame, column_names: Iterable[str], condition: Callable[[KeyBounds], Column]
    ) -> DataFrame | None:
        """Return the rows, aliased as t, that meet a condition, which is made of the bounds of the records' columns."""

    def closing_rows(self) -> DataFrame | None:
        """Return the rows of the windows that close in the changelog."""


class TableFold(RowMerge, ABC):
    """How a table folds the records of its stream.

    shows_one_record: whether a row shows one record, not the result of several. bound_columns: the columns of the
    records whose bounds a batch needs; the records are then held in memory. state_columns: what the state has beside
    the visible table's columns, as SQL.
    """

    shows_one_record = False
    state_columns = ""

    def __init__(self, table: Table, forms: Sequence[Form] = ()) -> None:
        """forms: of the table's aggregations; none where only the keys and times of records count."""
        super().__init__(table)
        self.forms = list(forms)

    @property
    def bound_columns(self) -> tuple[str, ...]:
        return ()

    @property
    def judges_lateness(self) -> bool:
        """Whether `with_lateness` can tell late records."""
        return False

    def check_types(self, stream_rows: DataFrame) -> None:
        """Raise PlanError for an expression whose type, which the plan does not know, is none that the fold takes.

        stream_rows: a frame of the table's stream.
        """

    @abstractmethod
    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        """Return the columns of a row of the visible table, without `_event_time` and `_position`.

        stream_rows: a frame of the table's stream.
        """

    @abstractmethod
    def has_null_key(self, stream_rows: DataFrame) -> Column:
        """Return the condition on records of a stream's frame that are counted and ignored: their key is null.

        A struct of nulls is not a null (rule 1).
        """

    @abstractmethod
    def take_records(self, stream_rows: DataFrame, *, units: bool) -> DataFrame:
        """Return what the fold takes of the records of a stream's frame, without those that it ignores.

        units: an aggregation's input is the unit of its form, not its value: see `changes`.
        """

    def arriving_records(self, stream_rows: DataFrame, clock: ClockState | None, *, units: bool = False) -> DataFrame:
        """Return the records of a stream's frame that reach the table. units: see `take_records`.

        clock: the table's clock before these records; None for a table without a clock.
        """
        taken_records = self.take_records(stream_rows, units=units)
        if clock is None:
            return taken_records
        if not self.table.stream.reads:
            return with_stream_time(self.table, taken_records, clock)
        # An intervention's change in an upstream table has no partition: it moves no stream time, and is late only for
        # windows that have closed by the watermark.
        moves_clock = F.col("_position.partition") >= 0
        timed_records = with_stream_time(self.table, taken_records, clock, moves=moves_clock)
        return timed_records.withColumn("_horizon", F.coalesce("_horizon", F.lit(ALWAYS_MS)))

    def with_lateness(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        """Add `_late` to arrived records: too late, or never in time. Only where `judges_lateness`.

        In tumbling and hopping windows: one row a window. read_rows: returns the rows that the table keeps, if any.
        """
        raise NotImplementedError(type(self))

    def timely_records(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        """Return the arrived records that are not too late. The rest: see `with_lateness`."""
        return self.with_lateness(records, read_rows).where(~F.col("_late")) if self.judges_lateness else records

    def touched_keys(self, records: DataFrame) -> DataFrame:
        """Return the keys that records touch: the group's columns; with windows if each window changes on its own."""
        return records.select(*self.table.group)

    def fold_batch(self, batch: BatchInput) -> FoldedRows:
        """Fold a batch. Its rows are then merged with those that the table keeps: see `RowMerge`."""
        if not self.judges_lateness:
            return FoldedRows(self.fold_timely(batch.records, batch))
        late_observation = Observation()
        judged_records = self.with_lateness(batch.records, batch.read_rows)
        judged_records = judged_records.observe(late_observation, F.count_if("_late").alias("late"))
        late_rows = judged_records.where("_late").select(*self.table.group, *self.table.windows, "_position")
        new_rows = self.fold_timely(judged_records.where(~F.col("_late")), batch)
        return FoldedRows(new_rows, late_rows, lambda: int(late_observation.get["late"]))

    def fold_timely(self, records: DataFrame, batch: BatchInput) -> DataFrame:
        """Return one row for each row of the table that a batch's timely records touch."""
        return self.new_rows(records)

    def new_rows(self, records: DataFrame) -> DataFrame:
        """Return one row for each row of the table that timely records touch, made of these records alone."""
        raise NotImplementedError(type(self))

    @abstractmethod
    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        """Return the rows that a table keeps after arrived records; no row expires.

        rows: those before; None for none.
        """

    @abstractmethod
    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        """Return the changes of the kept rows, record by record, as if each batch had one record.

        records: those that arrived, with units as inputs. of_state: the changes are shown as they are, so no operator
        looks back at the rows before a change. final_only: only the last row of each window that closes counts.
        Columns: key, values, what is kept beside them, `_tombstone`, `_event_time_ms`, `_position`, and `_step` where a
        record makes several changes. The rows from which the changes begin are among them, with a null `_position`.
        """

    def is_shown(self) -> Column:
        """Return the condition on kept rows that the fold shows; others are markers of deletes."""
        return F.lit(True)

    def without_markers(self, changes: DataFrame) -> DataFrame:
        """Return changes of kept rows as changes of the visible ones: a marker is a delete."""
        return changes

    def is_unneeded(self, watermark: int | None) -> Column | None:
        """Return the condition on kept rows that the fold no longer needs; None if it needs all."""
        return None

    def with_opening_rows(self, changes: DataFrame, base_rows: DataFrame | None) -> DataFrame:
        """Return changes, and the rows from which they begin, in their form, with a null position."""
        if base_rows is None:
            return changes
        null_position = F.lit(None).cast(dict(changes.dtypes)["_position"])
        rows = base_rows.withColumns(
            {"_event_time_ms": F.unix_millis("_event_time"), "_position": null_position, "_tombstone": ~self.is_shown()}
        )
        rows = rows.select(*[name for name in changes.columns if name in rows.columns])
        return changes.unionByName(rows, allowMissingColumns=True)

    def overlay_rows(self, rows: DataFrame | None, new_rows: DataFrame) -> DataFrame:
        """Return the rows after a batch: a key in `new_rows` has that row, or none if `_tombstone`."""
        if rows is None:
            return new_rows.where(~F.col("_tombstone")).drop("_tombstone")
        # One join, since `new_rows` is bronze decoded and folded: a union with an anti-join would do that twice.
        new_rows = new_rows.withColumn("_made", F.lit(True))
        joined_rows = rows.alias("b").join(new_rows.alias("m"), same_key(self.table.key, "b", "m"), "full_outer")
        joined_rows = joined_rows.where(~F.coalesce("m._tombstone", F.lit(False)))
        has_new_row = F.col("m._made").isNotNull()
        return joined_rows.select(
            *[
                F.when(has_new_row, self.overlaid_column(name)).otherwise(F.col(f"b.`{name}`")).alias(name)
                for name in rows.columns
            ]
        )

    def overlaid_column(self, name: str) -> Column:
        """Return a column of a row (b) after a batch that has a row of its key (m)."""
        return F.col(f"m.`{name}`")

    def running_window(self) -> WindowSpec:
        """Return the window over each row's changes up to the present one, after the row from which they begin."""
        window = Window.partitionBy(*self.table.key).orderBy(F.col("_position").asc_nulls_first())
        return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def clock_partition(stream_rows: DataFrame) -> Column:
    """Return the partition whose clock a record moves, as `_part`."""
    if "_part" in stream_rows.columns:
        return F.col("_part")
    return F.concat_ws("/", "_position.topic", "_topic_id", "_position.partition").alias("_part")


def nullable_fields(frame: DataFrame) -> list[StructField]:
    """Return a frame's fields; each may be null, and so may the parts of its type."""
    return list(make_nullable(frame.schema))


def parse_fields(ddl: str) -> list[StructField]:
    """Return the fields that SQL declares; none for an empty text."""
    parsed_type = StructType.fromDDL(ddl) if ddl else StructType()
    assert isinstance(parsed_type, StructType)
    return list(parsed_type)
