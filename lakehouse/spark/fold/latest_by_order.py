"""The fold of `order_by`: the last record of each key by an order in the records. All that is special to it is here.

A delete leaves a marker, so that an older record does not bring the row back. The columns of records, and of the state:

    _order    the order: for a time the microseconds since 1970, else the number
    _deleted  only in the state: true for a marker
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import expression_type
from lakehouse.plan.operator import LatestBy
from lakehouse.semantics.tombstone import LEAST_ORDER
from lakehouse.spark.expression.years import compute_columns
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.latest import LatestFold
from lakehouse.spark.fold.table_fold import OpeningRows, ReadRows, clock_partition

ORDER_TYPES = ("timestamp", "bigint", "int", "smallint", "tinyint")


class LatestByOrderFold(LatestFold):
    """The last record of each key by its order, and by its position among those of the same order."""

    state_columns = "_order bigint, _deleted boolean"
    order_columns = ("_order", "_position")

    @property
    def _operator(self) -> LatestBy:
        assert isinstance(self.table.fold, LatestBy)
        return self.table.fold

    @property
    def judges_lateness(self) -> bool:
        return True

    def check_types(self, stream_rows: DataFrame) -> None:
        """See `TableFold`."""
        order = self._operator.order
        if expression_type(order, self.table.stream.columns) is not None:
            return  # the plan has looked at it
        order_type = stream_rows.select(*compute_columns(stream_rows, [order])).schema[0].dataType.simpleString()
        label = f"table {self.table.name!r}: order_by={order.text}"
        if order_type not in ORDER_TYPES:
            raise PlanError(f"{label} is a {order_type}; expected a timestamp, or a number as a bigint.")
        if order_type == "timestamp" and not self._operator.is_time:
            raise PlanError(
                f"{label} is a timestamp inside of another value, and a delete would have none; expected a column: "
                "make it one before, with_columns(...), and order by that."
            )

    def take_records(self, stream_rows: DataFrame, *, units: bool) -> DataFrame:
        operator = self._operator
        column_names = [column.name for column in self.table.stream.columns]
        rows = stream_rows.where(~F.col("_null_key"))
        (order_value,) = compute_columns(rows, [operator.order])
        order_time = order_value
        if dict(rows.select(order_value.alias("o")).dtypes)["o"] == "timestamp":
            order_value, order_time = F.unix_micros(order_value), F.unix_millis(order_value)
        elif operator.is_time:
            order_value = order_value * 1000
        if operator.is_time:  # a null value has no columns to order by: the record's own time serves
            order_value = F.coalesce(order_value, F.col("rowtime") * 1000)
            order_time = F.coalesce(order_time, F.col("rowtime"))
        if operator.is_always_deleted:  # `_order_deletes` gives it an order
            order_value = F.when(F.col("_tombstone"), F.lit(LEAST_ORDER)).otherwise(order_value)
        return rows.select(
            *column_names,
            "_tombstone",
            "rowtime",
            "_position",
            order_value.cast("bigint").alias("_order"),
            clock_partition(rows),
            order_time.cast("bigint").alias("_time"),
        )

    def with_lateness(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        return self._order_deletes(self._judge(records), read_rows)

    def _judge(self, records: DataFrame) -> DataFrame:
        """Add `_late` to the records without an order, and to those older than the table remembers."""
        is_late = F.col("_order").isNull()
        if self._operator.remembers is not None:
            oldest_time = F.col("_horizon") - self._operator.remembers
            is_late = is_late | F.coalesce(F.col("_time") <= oldest_time, F.lit(False))
        if self._operator.is_always_deleted:
            is_late = is_late & ~F.col("_tombstone")
        return records.withColumn("_late", is_late)

    def _order_deletes(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        """Return arrived records, whose deletes get the order that decides; records with `_late` do not count.

        A delete that is newer than all before it gets the largest order that its key had before it; then it is treated
        like any other record: see `lakehouse.semantics.tombstone.order_of_newest`. Nothing changes for a table whose
        deletes have an order of their own. The rows that the table keeps may be among the records, too, with a null
        `_position`.
        """
        if not self._operator.is_always_deleted:
            return records
        own_order = F.when(~F.col("_late"), F.col("_order")) if "_late" in records.columns else F.col("_order")
        order_before = F.max(own_order).over(self.running_window())
        column_names = records.columns
        if (rows := read_rows()) is not None:
            kept_orders = rows.select(*self.table.key, F.col("_order").alias("_order_before")).alias("t")
            records = records.alias("a").join(kept_orders, same_key(self.table.key, "a", "t"), "left")
            records = records.select("a.*", "t._order_before")
            order_before = F.greatest(order_before, "_order_before")
        is_delete = F.col("_tombstone") & F.col("_position").isNotNull()
        records = records.withColumn("_order", F.when(is_delete, order_before).otherwise(F.col("_order")))
        return records.select(*column_names)

    def new_rows(self, records: DataFrame) -> DataFrame:
        return _with_markers(super().new_rows(records))

    def is_newer(self) -> Column | None:
        return F.struct("s._order", "s._position") > F.struct("t._order", "t._position")

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        new_rows = self.new_rows(self.timely_records(records, lambda: rows)).drop("_tombstone")
        if rows is None:
            return new_rows
        row_struct = F.struct(*[f"`{name}`" for name in rows.columns if name not in self.table.key])
        last_row = F.max_by(row_struct, F.struct("_order", "_position")).alias("_last")
        all_rows = rows.unionByName(new_rows)
        return all_rows.groupBy(*self.table.key).agg(last_row).select(*self.table.key, "_last.*")

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        """Return the records that were not older than the record that their key had then."""
        changes = self._judge(records).where("NOT _late").withColumn("_event_time_ms", F.col("rowtime"))
        changes = changes.drop("_late", "rowtime", "_part", "_time", "_horizon", "_tail", "_watermark")
        changes = self._order_deletes(self.with_opening_rows(changes, opening_rows.touched_rows(changes)))
        changes = changes.withColumn("_highest", F.max("_order").over(self.running_window()))
        return _with_markers(changes.where(F.col("_order") >= F.col("_highest")).drop("_highest"))

    def is_shown(self) -> Column:
        return ~F.col("_deleted")

    def without_markers(self, changes: DataFrame) -> DataFrame:
        is_delete = F.col("_tombstone") | F.coalesce("_deleted", F.lit(False))
        return changes.withColumn("_tombstone", is_delete).drop("_order", "_deleted")

    def is_unneeded(self, watermark: int | None) -> Column | None:
        remembered_ms = self._operator.remembers
        if remembered_ms is None or watermark is None:
            return None
        # In milliseconds, as for late records: microseconds are cut off.
        return F.col("_deleted") & (F.col("_order") < (watermark - remembered_ms + 1) * 1000)


def _with_markers(rows: DataFrame) -> DataFrame:
    """Return rows of which a delete is a row, the marker."""
    return rows.withColumns({"_deleted": F.col("_tombstone"), "_tombstone": F.lit(False)})
