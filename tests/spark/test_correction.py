"""Late correction on real Spark and Delta: closed windows are refolded with records that came too late.

window [0, 10), grace 0      records at 1, 3, then 25 closes it; 5 and 7 come too late
before                       [0, 10) -> 2
corrected                    [0, 10) -> 4, at a tick of its own; the changelog holds the change
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = lh.stream("events", key="id string", schema="n bigint")
BY_ID = EVENTS.group_by("id").window(lh.tumbling("10 milliseconds", grace="0 seconds"))
COUNTS = BY_ID.agg(n=lh.count(), total=lh.sum("n")).table("counts")
LISTS = BY_ID.agg(ns=lh.collect_list("n")).table("lists")
FINAL = BY_ID.agg(n=lh.count()).having("n > 3").table("busy", emit="final")
SESSIONS = (
    EVENTS.group_by("id").window(lh.session("4 milliseconds", grace="0 seconds")).agg(n=lh.count()).table("sessions")
)
APP = lh.app(COUNTS)

TIMES = [("a", 1), ("a", 3), ("b", 4), ("a", 25), ("a", 5), ("b", 6), ("a", 7)]


def history() -> list[Record]:
    orders = order_times([time for _, time in TIMES])
    return [
        Record("events", "id", 0, n, time, key.encode(), f'{{"n": {n}}}'.encode(), n // 4 + 1, order)
        for n, ((key, time), order) in enumerate(zip(TIMES, orders, strict=True))
    ]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    shown = [name for name in frame.columns if not name.startswith("_") and name != "window_end"]
    return sorted((row[0], row[1].microsecond // 1000, *row[2:]) for row in map(tuple, frame.select(*shown).collect()))


def changed(frame: Any) -> list[tuple[Any, ...]]:
    return [(row["id"], row["window_start"].microsecond // 1000, row["_tombstone"]) for row in frame.collect()]


@pytest.mark.rotated
def test_a_closed_window_is_refolded_for_its_key(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.correct import Corrected, correct, plan_correction
    from lakehouse.run.repair.intervene import Why
    from lakehouse.run.repair.stages import LateChoice
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.changelog import changefeed
    from lakehouse.spark.changelog.net import net_changes
    from lakehouse.spark.silver.query import Silver
    from lakehouse.spark.table import timelines

    layout = Layout(str(tmp_path / "lake"))
    assert write_bronze(open_lake(spark, layout), APP, history()) == 2

    def catch_up(app: App) -> None:
        with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
            silver.catch_up()

    def table(name: str) -> list[tuple[Any, ...]]:
        return rows(open_lake(spark, layout).read(layout.silver(name)))

    catch_up(APP)
    assert table("counts") == [("a", 0, 2, 1), ("a", 20, 1, 3), ("b", 0, 1, 2)]

    with pytest.raises(NotFound, match="no late record that fits"):
        correct(open_lake(spark, layout).open(COUNTS), APP, key="nobody")
    with pytest.raises(PlanError, match="has no windows"):
        correct(open_lake(spark, layout).open(EVENTS.latest("last")), APP)
    # A time without a zone is UTC, in whatever zone this process runs.
    first, after = datetime(1970, 1, 1), datetime(1970, 1, 1, microsecond=1_000)
    planned = plan_correction(open_lake(spark, layout).open(COUNTS), LateChoice("a", first, after))
    assert planned.expected == Corrected(None, 2)

    outcome = correct(open_lake(spark, layout).open(COUNTS), APP, key="a", why=Why("the gate's clock was behind"))
    assert (outcome.tick, outcome.records) == (3, 2)
    assert table("counts") == [("a", 0, 4, 11), ("a", 20, 1, 3), ("b", 0, 1, 2)], "b was not asked for"
    with pytest.raises(NotFound, match="was not taken in yet"):
        correct(open_lake(spark, layout).open(COUNTS), APP, key="a")

    catch_up(APP)
    assert table("counts") == [("a", 0, 4, 11), ("a", 20, 1, 3), ("b", 0, 1, 2)]
    feed = changefeed.per_event(open_lake(spark, layout).open(COUNTS), 0, 3)
    assert changed(feed) == [("a", 0, False), ("a", 0, False), ("b", 0, False), ("a", 20, False), ("a", 0, False)]
    assert changed(changefeed.per_event(open_lake(spark, layout).open(COUNTS), 2, 3)) == [("a", 0, False)]
    assert changed(net_changes(open_lake(spark, layout).open(COUNTS), 2, 3)) == [("a", 0, False)]
    before = timelines.version_at_tick(open_lake(spark, layout).open(COUNTS), 2)
    assert rows(open_lake(spark, layout).read(layout.silver("counts"), before))[0] == ("a", 0, 2, 1)
    assert [at.at for at in interventions.read_interventions(open_lake(spark, layout), "counts")] == [3]


@pytest.mark.slow
def test_a_correction_that_was_reverted_can_be_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """What it took in is late again, also for the next correction, until it is asked for once more."""
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.moment.cut import Cut
    from lakehouse.lake.record import late_records
    from lakehouse.run.repair.backfill import revert
    from lakehouse.run.repair.correct import correct
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout, app = Layout(str(tmp_path / "lake")), lh.app(COUNTS, SESSIONS)
    lake = open_lake(spark, layout)
    write_bronze(lake, app, history())
    with Silver(lake, app, lambda tick, records: None) as silver:
        silver.catch_up()

    def counted(table: lh.Table) -> tuple[list[int], int]:
        """The counts of the rows, and how many late records there are."""
        return [row[2] for row in rows(lake.read(layout.silver(table.name)))], late_records.count_late_records(
            layout, [table.name]
        )[table.name]

    for table in (COUNTS, SESSIONS):
        assert counted(table) == ([2, 1, 1], 3)
        assert correct(lake.open(table), app, key="a").records == 2
        assert counted(table) == ([4, 1, 1], 1)
        revert(lake.open(table), app, Cut(2))
        assert counted(table) == ([2, 1, 1], 3)
        assert correct(lake.open(table), app, key="b").records == 1
        assert counted(table) == ([2, 1, 2], 2), "of another key, and what was reverted stays so"
        assert correct(lake.open(table), app).records == 2
        assert counted(table) == ([4, 1, 2], 0)


@pytest.mark.slow
def test_keyed_tables_and_final_results_are_refolded_too(spark: SparkSession, tmp_path: Path) -> None:
    """`busy` has HAVING n > 3: its window never qualified, and now does."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.correct import correct
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.changelog import changefeed
    from lakehouse.spark.silver.query import Silver

    layout, app = Layout(str(tmp_path / "lake")), lh.app(LISTS, FINAL, SESSIONS)
    write_bronze(open_lake(spark, layout), app, history())
    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
        silver.catch_up()
    assert correct(open_lake(spark, layout).open(LISTS), app).tick == 3
    assert correct(open_lake(spark, layout).open(FINAL), app, key="a").tick == 4
    assert rows(open_lake(spark, layout).read(layout.silver("sessions"))) == [("a", 1, 2), ("a", 25, 1), ("b", 4, 1)]
    assert correct(open_lake(spark, layout).open(SESSIONS), app).tick == 5
    actual = rows(open_lake(spark, layout).read(layout.silver("sessions")))
    assert actual == [("a", 1, 4), ("a", 25, 1), ("b", 4, 2)], "sessions grew: of each a row went, and one came"
    grown = [("a", 1, False), ("a", 1, True), ("b", 4, False), ("b", 4, True)]
    assert sorted(changed(changefeed.per_event(open_lake(spark, layout).open(SESSIONS), 4, 5))) == grown
    actual = rows(open_lake(spark, layout).read(layout.silver("lists")))
    assert actual == [("a", 0, [0, 1, 4, 6]), ("a", 20, [3]), ("b", 0, [2, 5])]
    assert rows(open_lake(spark, layout).read(layout.silver("busy"))) == [("a", 0, 4)]
    assert changed(changefeed.per_event(open_lake(spark, layout).open(FINAL), 0, 4)) == [("a", 0, False)]


PAIRS = lh.stream(
    "pairs", key="id string", schema="one string, two string, at timestamp, price decimal(10, 2), n bigint"
)
BY_PAIR = (
    PAIRS.group_by("one", "two", "at", "price").window(lh.tumbling("10 milliseconds", grace="0 seconds"))
    .agg(n=lh.count()).table("by_pair")
)  # fmt: skip
# For each key the record at 0 counts; the one at 5 comes after the one at 25, too late.
SEEN = "2013-10-27T00:10:00.000005Z"
KEYS = [("a,b", "c", SEEN, 1.5), ("a", "b,c", SEEN, 1.5), ("a", None, SEEN, 1.5), ("a", "", SEEN[:-2] + "6Z", 1.5)]


@pytest.mark.slow
def test_a_correction_takes_no_record_of_a_key_that_only_looks_alike(spark: SparkSession, tmp_path: Path) -> None:
    """The first two keys are one text if joined by commas; the last two differ by a null, and by a microsecond."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.correct import correct
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.changelog import changefeed
    from lakehouse.spark.silver.query import Silver
    from lakehouse.spark.table import late

    layout, app, records = Layout(str(tmp_path / "lake")), lh.app(BY_PAIR), []
    # A record with a null in a group column belongs to no group: the key without `two` is in none.
    for time in (0, 25, 5):
        for key in KEYS:
            value = json.dumps(dict(zip(("one", "two", "at", "price"), key, strict=True))).encode()
            number = len(records)
            records.append(Record("pairs", "id", 0, number, time, b"k", value, 1, max(time, 25 if number > 3 else 0)))
    write_bronze(open_lake(spark, layout), app, records)
    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
        silver.catch_up()

    def counts() -> dict[tuple[Any, ...], int]:
        actual = (
            open_lake(spark, layout).read(layout.silver("by_pair")).where("unix_millis(window_start) = 0").collect()
        )
        return {(row["one"], row["two"], row["at"].microsecond): row["n"] for row in actual}

    mine, other, near = ("a,b", "c", 5), ("a", "b,c", 5), ("a", "", 6)
    assert counts() == {mine: 1, other: 1, near: 1}
    for key, known in (('"a,b",c', mine), ('a,""', near)):
        seen = f"2013-10-27T02:10:00.00000{known[2]}+02:00"
        assert late.select_late(open_lake(spark, layout).open(BY_PAIR), f"{key},{seen},1.5", None, None).count() == 1
        assert (
            changefeed.changes_of_key(
                open_lake(spark, layout).read(layout.silver("by_pair")), BY_PAIR, f"{key},{seen},1.50"
            ).count()
            == 2
        )
    with pytest.raises(ConfigError, match="found 2 values"):
        correct(open_lake(spark, layout).open(BY_PAIR), app, key="a,b")
    assert correct(open_lake(spark, layout).open(BY_PAIR), app, key=f'"a,b",c,{SEEN},1.50').records == 1
    assert counts() == {mine: 2, other: 1, near: 1}
    assert correct(open_lake(spark, layout).open(BY_PAIR), app, key=f'a,"",{SEEN[:-2]}6Z,1.5').records == 1
    assert counts() == {mine: 2, other: 1, near: 2}


def test_the_key_of_any_type_is_a_condition_on_spark_too(spark: SparkSession) -> None:
    from datetime import date
    from decimal import Decimal

    from lakehouse.formats.key_text import write_key
    from lakehouse.spark.key_column import is_key

    schema = (
        "n int, f boolean, d double, x float, p decimal(38, 10), day date, b binary, s struct<x: int, y: string>, "
        "t array<string>"
    )
    rows = [
        (
            0,
            True,
            1.5,
            0.1,
            Decimal("1.5000000000"),
            date(2013, 10, 27),
            b"\xff\x00",
            {"x": 1, "y": 'a,"b'},
            ["a", None],
        ),
        (1, False, float("nan"), float("inf"), Decimal(10) ** 27, date(1, 1, 1), b"", {"x": None, "y": None}, []),
        (2, None, None, None, None, None, None, None, None),
    ]
    frame = spark.createDataFrame(rows, schema)
    names = frame.columns[1:]
    for row in frame.toArrow().to_pylist(maps_as_pydicts="strict"):
        text = write_key([row[name] for name in names])
        assert [actual["n"] for actual in frame.where(is_key(frame.schema, names, text)).collect()] == [row["n"]], text
