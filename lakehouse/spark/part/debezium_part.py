"""A key or a value of a database's change log in JSON on Spark: the fast form of `lakehouse.formats.codec.debezium`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.formats.codec.debezium import COMMITTED, DELETED_MARK, OPERATION_MARK, ROW_AFTER
from lakehouse.spark.expression.years import in_range
from lakehouse.spark.part.connect_part import ConnectPart
from lakehouse.spark.part.field_tree import Path
from lakehouse.spark.part.record_part import python_delete_times

_COMMITTED_PATH = tuple(COMMITTED.name.split("."))
_OPERATION, _AFTER_PATH, _DELETED, _FLAT_OPERATION = ("op",), ("after",), (DELETED_MARK,), (OPERATION_MARK,)


@dataclass(frozen=True)
class DebeziumPart(ConnectPart):
    """A change event or its key."""

    @cached_property
    def _row_path(self) -> Path:
        return () if self.name == "key" or self._options.flattened else _AFTER_PATH

    @property
    def _own_paths(self) -> tuple[Path, ...]:
        if self.name == "key":
            return ()
        return (_DELETED, _FLAT_OPERATION) if self._options.flattened else (_OPERATION,)

    def _is_whole(self, text: Column) -> Column:
        if self.name == "key":
            return text.rlike(r"^\{[^{}]*\}$") & ~text.contains('"payload"')
        if self._options.flattened:
            may_be_envelope = text.contains('"op"') & text.contains('"source"')
            return super()._is_whole(text) & ~may_be_envelope
        return text.endswith("}")

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """Beside what a row needs, the time of a delete."""
        steps = super().separate_columns
        if not steps or not self._has_delete_times:
            return steps
        is_slow = F.col(f"_slow_{self.name}")
        quick_time = F.when(self._is_delete, self._tree.value(_COMMITTED_PATH))
        careful_time = python_delete_times(self)(F.when(is_slow, F.col(f"_raw_{self.name}")))
        time = F.when(is_slow, careful_time).otherwise(F.when(in_range(quick_time), quick_time))
        return *steps[:-1], steps[-1] | {f"_deleted_{self.name}": time}

    @property
    def _has_delete_times(self) -> bool:
        return (self._types_by_path or {}).get(_COMMITTED_PATH) == COMMITTED.type

    @property
    def deleted_ms(self) -> Column:
        return F.col(f"_deleted_{self.name}") if self._has_delete_times else super().deleted_ms

    @property
    def _is_delete(self) -> Column:
        if self.name == "key":
            return super()._is_delete
        if not self._options.flattened:
            return self._tree.value(_OPERATION) == "d"
        is_deleted = (self._tree.value(_DELETED) == "true") | (self._tree.value(_FLAT_OPERATION) == "d")
        return F.coalesce(is_deleted, F.lit(False))

    @property
    def _is_odd_record(self) -> Column:
        if self.name == "key":
            return super()._is_odd_record
        if not self._options.flattened:
            return ~self._tree.value(_OPERATION).isin(*ROW_AFTER, "d")
        operation = self._tree.value(_FLAT_OPERATION)
        return ~(operation.isin(*ROW_AFTER, "d") | (operation.isNull() & ~self.text.contains(f'"{OPERATION_MARK}"')))
