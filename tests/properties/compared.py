"""Compares what Spark reads of records with what the rule, `decode_record`, reads of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakehouse.formats.codec.registered import FindSchemas, find_no_schemas
from lakehouse.formats.decode import decode_record
from lakehouse.model.model import BadRecord
from lakehouse.plan.names.debezium_options import COMMITTED_COLUMN
from lakehouse.plan.origin import Source
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.years import is_possible_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bronze_rows(spark: SparkSession, records: list[Record]) -> DataFrame:
    """Return bronze's rows of records, all with the timestamp 0."""
    from lakehouse.spark.bronze import bronze

    rows = [(r.topic, r.topic_id, 0, r.offset, EPOCH, 0, None, r.key, r.value, 1, None) for r in records]
    return spark.createDataFrame(rows, bronze.SCHEMA)


def same_value(value: Any, other: Any) -> bool:
    return bool(value == other) or repr(value) == repr(other)


@dataclass
class Comparison:
    """What was compared. rows_read: the values that are rows; deletes: those with a time of their own."""

    differences: list[tuple[Any, ...]] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    rows_read: int = 0
    deletes: int = 0

    def add(
        self,
        source: Source,
        rows: DataFrame,
        records: list[Record],
        find_schemas: FindSchemas = find_no_schemas,
        is_same: Callable[[Any, Any], bool] = same_value,
    ) -> None:
        """Compare the records of a source. rows: bronze's. records: by their offsets."""
        from lakehouse.spark.changelog import published
        from lakehouse.spark.stream.decoded import decode_records

        for row in published.rows_of_frame(decode_records(source, rows, find_schemas)):
            record = records[row["rowoffset"]]
            item = decode_record(source, record, find_schemas)
            if isinstance(item, BadRecord):
                self.reasons.add(item.reason)
                same = bool(row["_bad"])
            else:
                value = item.value or {column.name: None for column in source.value}
                self.rows_read += item.value is not None
                self.deletes += item.deleted_ms is not None
                same = row["_bad"] == (item.value is not None and _lacks_time(source, value))
                same = same and row["_tombstone"] == (item.value is None) and row["_null_key"] == (item.key is None)
                same = same and row["id"] == (item.key or {}).get("id")
                same = same and all(is_same(row[name], part) for name, part in value.items())
                own_time = 0 if item.deleted_ms is None else item.deleted_ms
                same = same and (item.value is not None or row["rowtime"] == own_time)
            if not same:
                self.differences.append((source.value_format, record.key, record.value, row, item))

    def check_equal(self) -> None:
        """Fail if there are differences."""
        assert not self.differences, f"{len(self.differences)} differences; the first: {self.differences[:2]}"


def _lacks_time(source: Source, value: dict[str, Any]) -> bool:
    """Say whether a change log's row has no valid event time."""
    if source.event_time is None:
        return False
    time_ms = value[COMMITTED_COLUMN]
    return time_ms is None or not is_possible_time(time_ms)
