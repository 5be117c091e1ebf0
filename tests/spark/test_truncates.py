"""A truncate deletes what was there before it: in repairs and in the audit, and never where partitions hide the order.

What becomes of tables, their changes and their past: tests/properties/test_unsent.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.run.repair.backfill import backfill
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.moment import AtTick
from lakehouse.semantics.record import Record
from tests.bench import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENTS = lh.debezium("docs", key="id int", schema="n int", truncates="apply")
CURRENT = DOCUMENTS.latest("current")
APP = lh.app(CURRENT)
# In ticks: a truncate of rows of another tick, one right after it, and one of rows in its own tick.
TICKS = ["c1 c2", "c3 d1 t t c2", "u2 c4", "c5 t c6 u6"]
ROWS = [{1, 2}, {2}, {2, 4}, {6}]


def record(change: str, offset: int, tick: int, partition: int = 0) -> Record:
    operation, id = change[0], change[1:]
    event: dict[str, Any] = {"op": operation, "source": {"ts_ms": offset}}
    if operation in "cu":
        event["after"] = {"id": int(id), "n": offset}
    key = json.dumps({"id": int(id)}).encode() if id else None
    return Record("docs", "id", partition, offset, offset, key, json.dumps(event).encode(), tick, offset)


def history() -> list[Record]:
    changes = [(change, tick) for tick, text in enumerate(TICKS, 1) for change in text.split()]
    return [record(change, offset, tick) for offset, (change, tick) in enumerate(changes)]


def ids(rows: dict[Any, Any]) -> set[int]:
    return {key[0] for key in rows}


@pytest.mark.slow
def test_repairs_and_the_audit(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.audit.audit import audit
    from lakehouse.run.audit.missing import KafkaAccess

    bench = Bench(spark, tmp_path)
    write_bronze(bench.lake, APP, history())
    bench.catch_up(APP, 1, 3)
    bench.catch_up(APP, 4)
    for tick, expected in enumerate(ROWS, 1):
        assert ids(bench.rows(CURRENT, AtTick(tick))) == ids(bench.rebuilt(CURRENT, tick)) == expected, tick
    good = bench.rows(CURRENT)
    spark.sql(f"UPDATE delta.`{bench.layout.silver('current')}` SET n = 99, id = 3")
    assert backfill(bench.lake.open(CURRENT), APP).tick is not None
    assert bench.rows(CURRENT) == good
    result = audit(bench.lake.open(CURRENT), APP, KafkaAccess(None, {}, "nobody was asked"), deep=True)
    assert result.ok, result


@pytest.mark.slow
def test_a_topic_that_gains_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path)
    write_bronze(bench.lake, APP, [record("c1", 0, 1), record("c2", 0, 2, partition=1)])
    bench.catch_up(APP, 1)
    with pytest.raises(PlanError, match="topic 'docs' has several partitions"):
        bench.catch_up(APP, 2)
    assert ids(bench.rows(CURRENT)) == {1}
