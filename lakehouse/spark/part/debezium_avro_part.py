"""A database's change in Avro on Spark: the fast form of `lakehouse.formats.debezium_avro`.

An event is a record of Avro like any other: from_avro reads its op, the row after the change, and what else of the
envelope is declared. A property test compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.formats.avro.read_types import ReadTypes
from lakehouse.formats.debezium import COMMITTED, ROW_AFTER, split_columns, without_marks
from lakehouse.formats.debezium_avro import event_columns
from lakehouse.plan.names.debezium_options import UNSENT_COLUMN, DebeziumOptions, parse_options, placeholder_bytes
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.plan.schema import base_type
from lakehouse.spark.expression.avro_values import AvroValue, does_not_fit
from lakehouse.spark.expression.years import in_range
from lakehouse.spark.part.avro_part import AvroPart
from lakehouse.spark.part.record_part import python_delete_times

_OPERATION, _AFTER = 0, 1  # the places of an event's first columns


@dataclass(frozen=True)
class DebeziumAvroPart(AvroPart):
    """A change event. Rows alone (flattened), and names that differ in case alone, are left to Python."""

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        return name == "value"

    @cached_property
    def _options(self) -> DebeziumOptions:
        return parse_options(parse_format(self.format).options)

    @cached_property
    def _row_columns(self) -> tuple[PlanColumn, ...]:
        """The columns of the row, with the names and types of its fields."""
        in_topic = tuple(column.in_topic for column in self.columns)
        return without_marks(split_columns(in_topic, self._options.meta)[0])

    @cached_property
    def _written_columns(self) -> tuple[PlanColumn, ...]:
        return event_columns(tuple(column.in_topic for column in self.columns), self._options)

    @cached_property
    def _types_by_id(self) -> dict[int, ReadTypes | None]:
        lower_names = {column.name.lower() for column in self._row_columns}
        is_plain = self._written_columns[_OPERATION].type == "string" and len(lower_names) == len(self._row_columns)
        if self._options.flattened or not is_plain:
            return dict.fromkeys(self.schemas)
        return super()._types_by_id

    def _does_not_fit(self, values: list[AvroValue]) -> Column:
        operation, after = values[_OPERATION].value, values[_AFTER].value
        is_row = operation.isin(*ROW_AFTER)
        is_event = (operation == "d") | (is_row & after.isNotNull())
        faults = does_not_fit(values[: _AFTER + 1]) | ~F.coalesce(is_event, F.lit(False))
        # Of a delete nothing else is read.
        faults |= F.coalesce(is_row, F.lit(False)) & does_not_fit(values[_AFTER + 1 :])
        if not self._options.marks_unsent:
            for column in self._row_columns:
                faults |= F.coalesce(is_row & self._is_placeholder(after, column), F.lit(False))
        return faults

    @property
    def null(self) -> Column:
        is_delete = [values[_OPERATION].value == "d" for _, values in self._values_by_group]
        return super().null | (~self.unfit & F.coalesce(*is_delete, F.lit(False)))

    @property
    def bronze_columns(self) -> dict[str, Column]:
        columns = super().bronze_columns
        if self._careful_ids:
            careful_bytes = F.when(F.col(self.name).isNotNull() & self._has_id(self._careful_ids), F.col(self.name))
            columns[f"_deleted_{self.name}"] = python_delete_times(self)(careful_bytes)
        return columns

    @property
    def deleted_ms(self) -> Column:
        names = [column.name for column in self._written_columns]
        source, name = COMMITTED.name.split(".")
        times = [
            F.when(values[_OPERATION].value == "d", values[names.index(source)].value[name])
            for _, values in self._values_by_group
        ]
        careful_time = F.col(f"_deleted_{self.name}") if self._careful_ids else F.lit(None).cast("bigint")
        time_ms = F.coalesce(*times, careful_time)
        return F.when(in_range(time_ms) & ~self.unfit, time_ms)

    def _column_value(self, values: list[AvroValue], column: PlanColumn) -> Column:
        operation, after = values[_OPERATION].value, values[_AFTER].value
        in_topic = column.in_topic
        if column.name == UNSENT_COLUMN:
            unsent = [F.when(self._is_placeholder(after, item), F.lit(item.name)) for item in self._row_columns]
            value = F.array_compact(F.array(*unsent))
        elif in_topic in self._row_columns:
            value = F.when(~F.coalesce(self._is_placeholder(after, in_topic), F.lit(False)), after[in_topic.name])
        else:
            value = self._meta_value(values, in_topic.name.split("."))
        return F.when(operation.isin(*ROW_AFTER), value)

    def _meta_value(self, values: list[AvroValue], path: Sequence[str]) -> Column:
        place = [column.name for column in self._written_columns].index(path[0])
        value = values[place].value
        for name in path[1:]:
            value = value[name]
        return value

    def _is_placeholder(self, after: Column, column: PlanColumn) -> Column:
        """Return whether a field's value only says that there is one; may be null."""
        data = placeholder_bytes(self._options.unavailable)
        match base_type(column.type):
            case "string":
                return after[column.name] == data.decode("utf-8", "replace")
            case "binary":
                return after[column.name] == F.lit(data)
        return F.lit(False)
