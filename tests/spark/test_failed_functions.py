"""A user's function that raises is reported: failing records are counted, the first one is kept with its error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakehouse as lh
from lakehouse.lake import function_failures
from lakehouse.lake.layout import Layout
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.silver.query import Silver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def halved(numbers: pa.Array) -> pa.Array:
    for number in numbers.to_pylist():
        if number is not None and number % 2:
            raise ValueError(f"{number} is\nodd\x1b[2J\ud800")
    return pa.array([n and n // 2 for n in numbers.to_pylist()], type=pa.int64())


def record(offset: int, n: int | None, tick: int) -> Record:
    value = None if n is None else json.dumps({"g": "a", "n": n}).encode()
    return Record("numbers", "id", offset % 2, offset // 2, offset * 1000, str(offset).encode(), value, tick, offset)


@pytest.mark.rotated
def test_records_on_which_functions_fail_are_counted_in_the_tables_commits(spark: SparkSession, tmp_path: Path) -> None:
    numbers = lh.stream("numbers", key="id string", schema="g string, n bigint")
    mapped = numbers.map("half", halved, "n", type="bigint")
    functions = {
        "odd": lh.reduce("n", lambda a, b: a + b if b % 2 else 1 / 0),
        "own": lh.aggregate(
            "n", zero=0, add=lambda a, b: a + b, accumulator="bigint", result=lambda a: 1 // (a - 6), returns="bigint"
        ),
        "good": lh.reduce("n", max),
    }
    again = mapped.filter("n > 2").merge(mapped.filter("n > 0"))
    app = lh.app(
        again.latest("again"),
        mapped.group_by("g").agg(n=lh.count("half")).table("counted"),
        numbers.group_by("g").agg(**functions).table("plain"),
        numbers.group_by("g").window(lh.hopping("4 seconds", "2 seconds")).agg(**functions).table("windows"),
    )
    # Odd: 1, 3, 5. Even after the first: 2, 4, 6. Null values and bad records are given to no function.
    records = [record(n, n, 1 + n // 4) for n in range(1, 7)] + [record(7, None, 2)]
    layout = Layout(str(tmp_path / "lake"))
    last = write_bronze(open_lake(spark, layout), app, records)
    odd = "ValueError: 1 is odd\x1b[2J\\ud800"
    divided = "ZeroDivisionError: division by zero"
    told: list[tuple[str, FunctionFailures]] = []
    for tick in range(1, last + 1):  # each tick has a new writer
        with Silver(open_lake(spark, layout), app, lambda tick, count: None) as silver:
            silver.catch_up(tick)
            told += silver.take_failures()
            assert not list(silver.take_failures())
    halves = (FunctionFailures("map half", 3, "numbers/1/0", odd),)
    reduced = FunctionFailures("reduce odd", 3, "numbers/0/1", divided)
    # A batch shows only its last total: 6, after the first tick.
    own = FunctionFailures("aggregate own", 1, "numbers/1/1", "ZeroDivisionError: integer division or modulo by zero")
    tables = {"again": halves, "counted": halves, "plain": (own, reduced)}
    actual = function_failures.failures_by_table(layout)
    assert {name: actual[name] for name in tables} == tables
    # A record counts once, though it is in two windows.
    assert reduced in actual["windows"]
    assert {function for table, function in told if table == "counted"} == {
        FunctionFailures("map half", 2, "numbers/1/0", odd),
        FunctionFailures("map half", 1, "numbers/1/2", odd.replace("1", "5", 1)),
    }  # fmt: skip
