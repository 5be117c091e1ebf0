"""Explain on real Spark and Delta: its steps are the changelog per event; interventions are steps; bronze by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.lake.place import bronze_place
from lakehouse.plan.app import App
from lakehouse.plan.operator import Having
from lakehouse.plan.table import Table
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.as_written import plain_value
from lakehouse.run.scenario.keys import keys_of
from lakehouse.semantics.moment import AtEvent, AtOffsets, AtTick
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout

EVENTS = lh.stream("events", key="id string", schema="n bigint, who string, tags array<string>")
WINDOW = lh.tumbling("10 milliseconds", grace="0 milliseconds")
SESSION = lh.session("5 milliseconds", grace="8 milliseconds")
LATE = EVENTS.group_by("id").window(WINDOW).agg(n=lh.count(), total=lh.sum("n")).table("windows")
SUMS = EVENTS.group_by("id").agg(n=lh.count(), mean=lh.avg("n"), top=lh.max("n")).table("sums")
VISITS = EVENTS.group_by("id").window(SESSION).agg(n=lh.count()).table("visits")
HASHED = EVENTS.group_by("sha(id) AS h").agg(n=lh.count()).table("hashed")
FEW = lh.app(LATE, VISITS, HASHED)
MORE = lh.app(
    EVENTS.latest("last"),
    EVENTS.latest("ordered", order_by="n"),
    SUMS,
    EVENTS.rekey("who").latest("people"),
    EVENTS.explode("tags", "tag").group_by("tag").agg(n=lh.count()).table("tags"),
    EVENTS.group_by("id").agg(n=lh.count()).having("n > 1").table("several"),
)
# (key, n, who, tags, event time): late records, one that joins sessions, one older by order, deletes, bad records.
SENT: list[Any] = [
    ("a", 1, "ann", ["x", "y"], 1), ("b", 2, "bob", ["x"], 4), ("a", 9, "ann", ["y", "y"], 11), ("a", 3, None, [], 6),
    ("a", None, None, None, 12), ("b", 5, "ann", ["z"], 25), ("a", 4, "bob", ["x"], 13), ("b", 6, "eve", None, 9),
    ("a", 7, "ann", ["x"], 31), ("b", 1, "bob", ["x"], 28), ("a", 2, "ann", ["z"], 22), (None, 1, "ann", ["x"], 33),
]  # fmt: skip


def sent() -> list[Record]:
    made, order = [], 0
    for number, (key, n, who, tags, time) in enumerate(SENT):
        order = max(order, time)
        value = None if n is None else json.dumps({"n": n, "who": who, "tags": tags}).encode()
        bytes_of_key = None if key is None else key.encode()
        made.append(Record("events", "id", 0, number, time, bytes_of_key, value, number // 4 + 1, order))
    return made


def made(spark: SparkSession, folder: Path, app: App) -> Layout:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(folder))
    write_bronze(open_lake(spark, layout), app, sent())
    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
        silver.catch_up(2)
        silver.catch_up()
    return layout


@pytest.fixture(scope="module")
def layout(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return made(spark, tmp_path_factory.mktemp("lake"), FEW)


def per_event(spark: SparkSession, layout: Layout, table: Table, key: str, to: int) -> list[Any]:
    from lakehouse.spark.changelog import changefeed, published

    frame = changefeed.changes_of_key(changefeed.per_event(open_lake(spark, layout).open(table), 0, to), table, key)
    return [
        (
            row["_position"]["offset"],
            row["_position"]["ordinals"],
            plain_value({n: row[n] for n in table.key}),
            None
            if row["_tombstone"]
            else plain_value({n: v for n, v in row.items() if n[0] != "_" and n not in table.key}),
        )
        for row in published.rows_of_frame(frame)
    ]


def seen(lake: Lake, table: Table, key: str, at: Any = None) -> list[Any]:
    result = []
    for row in lake.explain(table, key, at):
        assert row.agrees, (table.name, key, row.note)
        for step in row.steps:
            left_out = step.did in ("late", "superseded", "left out by HAVING")
            if not left_out and (table.find(Having) is None or step.did != "unchanged"):
                position = step.position
                result.append(
                    (
                        position.offset,
                        list(position.ordinals),
                        plain_value(row.key),
                        None if step.row is None else plain_value(step.row),
                    )
                )
    return result


def check(spark: SparkSession, layout: Layout, table: Table) -> None:
    lake, columns = Lake(layout.root), keys_of(table).columns
    keys = {",".join(str(value) for value in row) for row in lake.read(table).select(*columns).distinct().collect()}
    for key in keys or {"a"}:  # a table (`ordered`) may have no rows left
        changes = per_event(spark, layout, table, key, 3)
        assert changes
        assert sorted(map(str, seen(lake, table, key))) == sorted(map(str, changes)), (table.name, key)


@pytest.mark.slow
def test_the_steps_are_the_changelog_per_event(spark: SparkSession, layout: Layout) -> None:
    """`hashed` is explained by Spark, the others by the model: late records, sessions that are absorbed."""
    for table in FEW.tables:
        check(spark, layout, table)


@pytest.mark.slow
def test_at_an_event_time(layout: Layout) -> None:
    """Spark reads the table at that time, and the two agree: `seen` checks it."""
    assert [offset for offset, *_ in seen(Lake(layout.root), LATE, "a", AtEvent(12))] == [0, 2]


@pytest.mark.slow
def test_more_kinds_and_moments(spark: SparkSession, tmp_path: Path) -> None:
    layout = made(spark, tmp_path / "lake", MORE)
    for table in MORE.tables:
        check(spark, layout, table)
    for at, offsets in ((AtTick(1), [0, 2, 3]), (AtEvent(12), [0, 2, 3]), (AtOffsets({"events": {0: 3}}), [0, 2])):
        assert [offset for offset, *_ in seen(Lake(layout.root), SUMS, "a", at)] == offsets, at


@pytest.mark.slow
def test_interventions_are_steps_and_bronze_is_laid_out_by_key(spark: SparkSession, layout: Layout) -> None:
    from deltalake import DeltaTable

    from lakehouse.run.repair.correct import correct
    from lakehouse.run.repair.intervene import Why
    from lakehouse.spark.bronze import compaction
    from lakehouse.spark.transaction import METADATA, read_progress

    lake = Lake(layout.root)
    before = DeltaTable(layout.records)
    stream = spark.readStream.format("delta").load(layout.records)
    counted: list[int] = []
    query = stream.writeStream.foreachBatch(lambda frame, number: counted.append(frame.count())).start()
    try:
        query.processAllAvailable()
        spark.conf.set(METADATA, '{"topics": "of another commit"}')
        assert compaction.cluster_files(open_lake(spark, layout)) == ["events"]
        spark.conf.unset(METADATA)
        assert compaction.cluster_files(open_lake(spark, layout)) == [], "one file is not worth it"
        query.processAllAvailable()
    finally:
        query.stop()
    assert sum(counted) == len(SENT)
    after = DeltaTable(layout.records)
    assert (len(before.file_uris()), len(after.file_uris())) == (3, 1)
    last = after.history(1)[0]
    assert (last["operation"], last.get("userMetadata")) == ("OPTIMIZE", None)
    assert read_progress(spark, bronze_place(layout)).tick == 3
    assert spark.read.format("delta").load(layout.records).count() == len(SENT)

    assert "late" in [step.did for row in lake.explain(LATE, "a") for step in row.steps]
    assert correct(open_lake(spark, layout).open(LATE), FEW, key="a", why=Why("a slow phone")).records > 0
    rows = lake.explain(LATE, "a")
    assert all(row.agrees for row in rows)
    (step,) = [step for row in rows for step in row.steps if step.record is None][:1]
    assert (step.did, step.reason) == ("late records taken in", "a slow phone")
    assert step.row is not None
    with pytest.raises(lh.LakehouseError, match="only Spark can explain this table"):
        lake.explain(LATE, "a", AtEvent(12))
    assert "late" in [step.did for row in rows for step in row.steps]
