"""A database's change in Avro on Spark: the fast form of `lakehouse.formats.codec.debezium_avro`.

An event is a record of Avro like any other: from_avro reads its op, the row after the change, and what else of the
envelope is declared. A property test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.formats.avro.read_types import ReadTypes
from lakehouse.formats.codec.debezium import (
    COMMITTED,
    DELETE,
    NEW_ROW,
    ROW_AFTER,
    TRUNCATE,
    split_columns,
    without_marks,
)
from lakehouse.formats.codec.debezium_avro import event_columns, is_envelope
from lakehouse.formats.values.unsent import unsent_values
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.expression.schema import base_type
from lakehouse.plan.names.debezium_options import UNSENT_COLUMN, DebeziumOptions, parse_options
from lakehouse.plan.names.record_format import parse_format
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

    @property
    def _deletes(self) -> tuple[str, ...]:
        """The operations after which there is no row."""
        return (DELETE, TRUNCATE) if self._options.applies_truncates else (DELETE,)

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
        if self._options.flattened or not is_plain or not self._has_plain_metas:
            return dict.fromkeys(self.schemas)
        return {id: types for id, types in super()._types_by_id.items() if is_envelope(self.schemas[id].avro_type)}

    @property
    def _has_plain_metas(self) -> bool:
        """Whether no part of the envelope beside the row is read twice: alone and in another one, or in other cases."""
        in_topic = tuple(column.in_topic for column in self.columns)
        metas = {(column.name, column.type) for column in split_columns(in_topic, self._options.meta)[1]}
        paths = {path.lower() for path, _ in metas}
        is_nested = any(other.startswith(f"{path}.") for path in paths for other in paths)
        return len(paths) == len(metas) and not is_nested

    def _does_not_fit(self, values: list[AvroValue]) -> Column:
        operation, after = values[_OPERATION].value, values[_AFTER].value
        is_row = operation.isin(*ROW_AFTER)
        is_event = operation.isin(*self._deletes) | (is_row & after.isNotNull())
        faults = does_not_fit(values[: _AFTER + 1]) | ~F.coalesce(is_event, F.lit(False))
        # Of a delete nothing else is read.
        faults |= F.coalesce(is_row, F.lit(False)) & does_not_fit(values[_AFTER + 1 :])
        # An update may leave a value out where the row keeps it; a new row has none to keep.
        needs_all = operation.isin(*NEW_ROW) if self._options.marks_unsent else is_row
        for column in self._row_columns:
            faults |= F.coalesce(needs_all & self._is_placeholder(after, column), F.lit(False))
        return faults

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """Beside what the values in Avro need, the event's columns: each column of the row takes its value of them."""
        events = {}
        for place, column in enumerate(self._written_columns):
            values = [values[place].value.cast(column.type) for _, values in self._values_by_group]
            events[f"_event{place}_{self.name}"] = F.coalesce(*values, F.lit(None).cast(column.type))
        return tuple(columns | events for columns in super().separate_columns)

    def _event(self, place: int) -> Column:
        """Return one of the event's columns."""
        return F.col(f"_event{place}_{self.name}")

    @property
    def is_null(self) -> Column:
        return super().is_null | (
            ~self.is_unfit & F.coalesce(self._event(_OPERATION).isin(*self._deletes), F.lit(False))
        )

    @property
    def bronze_columns(self) -> dict[str, Column]:
        columns = super().bronze_columns
        if self._careful_ids:
            careful_bytes = F.when(F.col(self.name).isNotNull() & self._has_id(self._careful_ids), F.col(self.name))
            columns[f"_deleted_{self.name}"] = python_delete_times(self)(careful_bytes)
        return columns

    @property
    def deleted_ms(self) -> Column:
        is_delete = self._event(_OPERATION).isin(*self._deletes)
        no_time = F.lit(None).cast("bigint")
        quick_time = F.when(is_delete, self._meta_value(COMMITTED.name)) if self._values_by_group else no_time
        careful_time = F.col(f"_deleted_{self.name}") if self._careful_ids else no_time
        time_ms = F.coalesce(quick_time, careful_time)
        return F.when(in_range(time_ms) & ~self.is_unfit, time_ms)

    def column(self, name: str) -> Column:
        if not self._values_by_group:
            return F.when(~self.is_unfit, self._careful_row[name])
        column = next(column for column in self.columns if column.name == name)
        after, in_topic = self._event(_AFTER), column.in_topic
        if column.name == UNSENT_COLUMN:
            unsent = [F.when(self._is_placeholder(after, item), F.lit(item.name)) for item in self._row_columns]
            value = F.array_compact(F.array(*unsent))
        elif in_topic in self._row_columns:
            value = F.when(~F.coalesce(self._is_placeholder(after, in_topic), F.lit(False)), after[in_topic.name])
        else:
            value = self._meta_value(in_topic.name)
        quick_value = F.when(self._event(_OPERATION).isin(*ROW_AFTER), value.cast(column.type))
        return F.when(~self.is_unfit, F.coalesce(quick_value, self._careful_row[name]))

    def _meta_value(self, path: str) -> Column:
        first_name, *other_names = path.split(".")
        value = self._event([column.name for column in self._written_columns].index(first_name))
        for name in other_names:
            value = value[name]
        return value

    def _is_placeholder(self, after: Column, column: PlanColumn) -> Column:
        """Return whether a field's value only says that there is one; may be null."""
        if base_type(column.type) == "map":  # Python reads each record that has one
            return F.lit(False)
        values = unsent_values(column.type, self._options.unavailable)
        is_equal = [after[column.name] == _literal(value).cast(column.type) for value in values]
        return reduce(or_, is_equal, F.lit(False))


def _literal(value: Any) -> Column:
    return F.array(*map(F.lit, value)) if isinstance(value, list) else F.lit(value)
