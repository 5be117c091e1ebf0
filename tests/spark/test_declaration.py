"""A table whose declaration has changed, on Spark: it goes on, or it is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import declaration_properties
from lakehouse.plan.table import Table
from lakehouse.plan.windows import DeclaredWindow
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from lakehouse.settings.config import load
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm import folders
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.table import tables
from lakehouse.spark.transaction import read_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000
TUMBLING = lh.tumbling("1 hour", grace="0 minutes")


def declare(window: DeclaredWindow = TUMBLING, name: str = "orders", **options: Any) -> App:
    """A table that keeps more than it shows, over an expression that is hard to quote."""
    orders = lh.stream("orders", key="id string", schema="n bigint", name=name)
    good = orders.filter("id <> 'it\\'s \\\\ \"${spark.master}\"'")
    hours = good.group_by("id").window(window).agg(n=lh.count()).having("n > 1")
    return lh.app(hours.table("hours", **options))


def record(offset: int, time: int) -> Record:
    place = ("orders", "topic-id", 0, offset)
    return Record(*place, time, b"a", b'{"n":1}', offset // 2 + 1, time)


def seen(layout: Layout) -> dict[int, int]:
    rows = reader.open_dataset(layout.silver("hours")).to_table().to_pylist()
    return {int(row["window_start"].timestamp() * 1000) // HOUR: row["n"] for row in rows}


@pytest.mark.rotated
def test_a_table_goes_on_or_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s "my" lake'
    layout = Layout(str(folder))
    first = declare()
    write_bronze(open_lake(spark, layout), first, [record(n, hour * HOUR) for n, hour in enumerate((0, 0, 5, 5))])
    with Silver(open_lake(spark, layout), first, lambda tick, records: None) as silver:
        silver.catch_up(1)
    assert seen(layout) == {0: 2}

    changed = declare(name="renamed", suppress=True, retention="1 hour")
    with Silver(open_lake(spark, layout), changed, lambda tick, records: None) as silver:
        silver.catch_up(2)
    assert seen(layout) == {5: 2}
    wanted = declaration_properties(changed.table("hours"))
    for path in (layout.silver("hours"), layout.state("hours")):
        actual = read_properties(spark, path)
        assert {name: actual[name] for name in wanted} == wanted
        assert actual["lakehouse.key"] == "id,window_start,window_end"
    for name in ("hours", "state.hours"):
        assert [row["operation"] for row in reader.read_log_rows(layout, name)].count("new declaration") == 1

    other = declare(window=lh.tumbling("2 hours"), name="renamed", suppress=True, retention="1 day")
    settings = load(environ={"LAKEHOUSE_LAKE_PATH": str(folder), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": "nowhere:9"})
    before = sorted(folder.rglob("*"))
    with pytest.raises(
        PlanError, match=r"window: found tumbling \(size 3600000 ms.*\n.*retention.*\n`lakehouse repair backfill"
    ):
        Lake(settings=settings).run(other, until="caught_up")
    assert sorted(folder.rglob("*")) == before
    # A lake on an object store is not checked before Spark starts: the table refuses when it is opened.
    with pytest.raises(PlanError, match="exists in the lake under another declaration, and needs a refold"):
        tables.create_table(open_lake(spark, layout).open(other.table("hours")))


def test_a_table_with_other_hidden_columns_is_refused_with_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release wrote its sums in another form. Without the check, a MERGE that Spark can't resolve fails."""
    layout, stream = Layout(str(tmp_path)), lh.stream("orders", key="id string", schema="n decimal(38, 30)")

    def sums_table() -> Table:
        return stream.group_by("id").agg(total=lh.sum("n"), mean=lh.avg("n")).table("sums")

    with monkeypatch.context() as other_release:
        other_release.setattr("lakehouse.plan.aggregation.PART_DIGITS", 99)
        tables.create_table(open_lake(spark, layout).open(sums_table()))
    sums = sums_table()
    with pytest.raises(PlanError) as refused:
        tables.create_table(open_lake(spark, layout).open(sums))
    message = str(refused.value)
    assert "_acc_total: found decimal(37,30); expected struct<high:" in message
    assert "_acc_mean: found struct<sum:decimal(37,30)" in message
    assert "another release of lakehouse or Spark wrote it" in message
    assert "remove the folders silver/sums and anchors/sums" in message
    folders.remove_folder(spark, layout.silver("sums"))
    tables.create_table(open_lake(spark, layout).open(sums))
    tables.create_table(open_lake(spark, layout).open(sums))
