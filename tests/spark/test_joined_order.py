"""A record that changes a row several times: later records find the last change, in whatever order Spark reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakehouse as lh
from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.table import Table
from lakehouse.spark.stream.broadcast import join_broadcast
from lakehouse.spark.stream.table_join import join_with_table

CLICKS = lh.stream("clicks", key="id string", schema="user string")
USERS = lh.stream("users", key="name string", schema="city string").latest("users")
CHANGED = f"name string, city string, _tombstone boolean, _event_time_ms bigint, _position {POSITION_TYPE}, _number int"
RECORDS = (
    f"id string, user string, rowtime bigint, _tombstone boolean, _null_key boolean, _position {POSITION_TYPE}, "
    "_topic_id string"
)


def at(offset: int, *ordinals: int) -> tuple[Any, ...]:
    return 1, 1000, "users", 0, offset, list(ordinals)


class Backwards:
    """The table's changes, the last one first: a fan-out of one record, and two changes at one position."""

    def __init__(self, spark: SparkSession) -> None:
        rows = [
            ("a", "fan-out 10", False, 1, at(0, 1, 10), 0), ("a", "fan-out 9", False, 1, at(0, 1, 9), 0),
            ("a", "left", False, 1, at(0, 0), 0), ("b", "second", False, 1, at(0, 2), 1),
            ("b", "first", False, 1, at(0, 2), 0), ("c", "gone", True, 1, at(0, 1, 3), 0),
            ("c", "there", False, 1, at(0, 1, 2), 0),
        ]  # fmt: skip
        self._changes = spark.createDataFrame(rows, CHANGED).coalesce(1)

    def changes(self, table: Table) -> DataFrame:
        return self._changes

    def rows(self, table: Table, keys: DataFrame | None) -> DataFrame | None:
        return None

    def history(self, table: Table, keys: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        return self._changes, None

    def held(self, frame: DataFrame) -> DataFrame:
        return frame


@pytest.mark.parametrize(
    ("options", "join"),
    [({}, join_with_table), ({"broadcast": True}, join_broadcast), ({"as_of": "event time"}, join_with_table)],
    ids=["arrival", "broadcast", "event-time"],
)
def test_the_last_change_by_a_record_is_found(
    spark: SparkSession, options: dict[str, Any], join: Callable[..., DataFrame]
) -> None:
    origin = CLICKS.join(USERS, on="user", how="left", **options).source
    assert isinstance(origin, TableJoin)
    clicks = [(name, name, 5, False, False, at(1), "id") for name in "abc"]
    actual = join(origin, spark.createDataFrame(clicks, RECORDS), Backwards(spark))
    assert {row["id"]: row["city"] for row in actual.collect()} == {"a": "fan-out 10", "b": "second", "c": None}
