"""Two tables compared on Spark, by key: added, removed and changed keys, and rows that are there twice."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = ("city", "n")
COLUMNS = "city string, n int, total decimal(20, 2), _position int"


def test_keys_are_added_removed_and_changed(spark: SparkSession) -> None:
    from lakehouse.spark.content import compare_tables

    before = spark.createDataFrame(
        [("a", 1, Decimal("1.50"), 1), ("b", 1, None, 2), (None, 2, Decimal(3), 3)], COLUMNS
    ).drop("_position")
    after = spark.createDataFrame(
        [("a", 1, Decimal("12345678901234567.89"), 9), (None, 2, Decimal(3), 9), ("c", None, None, 9)], COLUMNS
    )
    actual = compare_tables(KEY, before, after, limit=2)
    assert (actual.added, actual.removed, actual.changed, actual.keys, actual.equal) == (1, 1, 1, 3, False)
    assert actual.changes == [
        {
            "change": "changed",
            "key": {"city": "a", "n": 1},
            "before": {"total": Decimal("1.50")},
            "after": {"total": Decimal("12345678901234567.89")},
        },
        {"change": "removed", "key": {"city": "b", "n": 1}, "before": {"total": None}, "after": None},
    ]
    assert compare_tables(KEY, before, before).equal


def test_a_column_that_one_side_lacks_is_null_there(spark: SparkSession) -> None:
    from lakehouse.spark.content import compare_tables

    before = spark.createDataFrame([("a", 1)], "city string, n int")
    null, five = (spark.createDataFrame([("a", 1, value)], "city string, n int, extra int") for value in (None, 5))
    assert compare_tables(KEY, before, null).equal
    (change,) = compare_tables(KEY, before, five, limit=5).changes
    assert (change["before"], change["after"]) == ({}, {"extra": 5})


def test_a_row_that_is_there_twice_is_a_difference(spark: SparkSession) -> None:
    from lakehouse.spark.content import compare_tables

    once, twice = (spark.createDataFrame([("a", 1)] * times, "city string, n int") for times in (1, 2))
    assert compare_tables(KEY, twice, once).removed == 1
    assert compare_tables(KEY, once, twice).added == 1
