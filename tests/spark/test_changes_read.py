"""Reading a table's changes: only the files that can hold changed rows, and a few rows at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout

EVENTS = lh.stream("events", key="id string", schema="n bigint")
BY_ID = EVENTS.group_by("id")
IN_WINDOWS = BY_ID.window(lh.tumbling("100 milliseconds", grace="2 seconds"))
APP = lh.app(
    EVENTS.latest("newest", suppress=True),
    BY_ID.agg(n=lh.count_distinct("n")).table("different"),
    IN_WINDOWS.agg(n=lh.count()).table("final", emit="final"),
)
KEYS = 400


def records() -> list[Record]:
    """400 keys in tick 1, ten in each window; in tick 2 three records of one key, which close a window."""
    times = [*(10 * n for n in range(KEYS)), *([10 * KEYS + 100] * 3)]
    keys = [*range(KEYS), *([7] * 3)]
    return [
        Record(
            "events", "id", 0, n, time, f"k{key:03}".encode(), json.dumps({"n": n}).encode(), 1 + n // KEYS, time,
        )
        for n, (time, key) in enumerate(zip(times, keys, strict=True))
    ]  # fmt: skip


@pytest.fixture(scope="module")
def layout(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.fold import merge
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(tmp_path_factory.mktemp("changes")))
    write_bronze(open_lake(spark, layout), APP, records())
    with (
        pytest.MonkeyPatch.context() as patched,
        Silver(open_lake(spark, layout), APP, lambda tick, count: None) as silver,
    ):
        patched.setattr(merge, "ROWS_PER_FILE", KEYS // 10)
        for tick in (1, 2):
            silver.catch_up(tick)
    return layout


@pytest.mark.rotated
@pytest.mark.parametrize("table", APP.tables, ids=lambda table: table.name)
def test_the_changes_of_one_key_do_not_read_the_whole_table(
    spark: SparkSession, layout: Layout, table: lh.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each published batch used to read every row of a keyed table, and of one with final results."""
    from lakehouse.lake import reader
    from lakehouse.run.scenario.replay import _row_to_change
    from lakehouse.spark.changelog import changefeed, opening_rows

    monkeypatch.setattr(opening_rows, "SMALL_BYTES", 0)
    path = open_lake(spark, layout).open(table).state.path
    changes = changefeed.per_event(open_lake(spark, layout).open(table), 1, 2)
    commits = reader.walk_commits(path, path)
    first = next(c for c in commits if (metadata := reader.parse_commit(c, path)) and metadata.tick == 1)
    there = len(reader.list_file_paths(reader.open_table(path, path, first["version"])))
    looked_at = [name for name in changes.inputFiles() if path in name]
    actual = [_row_to_change(table.key, row) for row in changes.toArrow().to_pylist(maps_as_pydicts="strict")]
    assert actual == [
        c for c in model.run(APP, records(), decode_record).changelogs[table.name] if c.position.tick == 2
    ]
    assert actual
    assert there >= 10
    assert 0 < len(set(looked_at)) <= 3


@pytest.mark.rotated
def test_a_set_of_many_values_is_published_once_a_tick(spark: SparkSession, layout: Layout) -> None:
    """Publishing 16,000 different values of one key with every change was quadratic."""
    from lakehouse.spark.changelog import changefeed

    actual = changefeed.per_event(open_lake(spark, layout).open(APP.table("different")), 1, 2).collect()
    assert [(row["n"], row["_acc_n"]) for row in actual] == [(2, None), (3, None), (4, [7, 400, 401, 402])]


@pytest.mark.rotated
def test_rows_reach_the_driver_in_order_and_a_few_at_a_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collected at once, they had to fit into spark.driver.maxResultSize."""
    from pyspark.sql import functions as F

    from lakehouse.spark import driver_rows

    monkeypatch.setattr(driver_rows, "FETCHED_BYTES", 100_000)
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    frame = session.range(5000).withColumn("text", F.repeat(F.lit("x"), 100)).orderBy(F.desc("id"))
    sizes = [sum(map(len, chunks)) for chunks in driver_rows.fetch_chunks(frame)]
    assert len(sizes) > 5
    assert max(sizes) <= 100_000
    assert [row["id"] for row in driver_rows.stream_rows(frame)] == list(range(4999, -1, -1))
    monkeypatch.setattr(driver_rows, "FETCHED_BYTES", 1)  # a row that is larger than the limit comes alone
    assert sum(1 for _ in driver_rows.fetch_chunks(frame)) >= 50
    assert list(driver_rows.stream_rows(frame.limit(0))) == []
