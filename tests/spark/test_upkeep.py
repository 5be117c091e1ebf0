"""Upkeep on real Spark and Delta: fewer files, older versions gone, and every moment of the past reads as before."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import AtTick, AtVersion
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.open_lake import OpenLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout
    from lakehouse.spark.silver.upkeep import UpkeepPolicy

EVENTS = lh.stream("events", key="id string", schema="n bigint")
SUMS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums")
OFTEN = EVENTS.group_by("id").agg(n=lh.count()).having("n > 1").table("often")
APP = lh.app(SUMS, OFTEN)
SOURCE = """
import lakehouse as lh
events = lh.stream("events", key="id string", schema="n bigint")
app = lh.app(
    events.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums"),
    events.group_by("id").agg(n=lh.count()).having("n > 1").table("often"),
)
"""
DAY = 86_400_000


def history(ticks: int, first: int = 1) -> list[Record]:
    """Three records a tick: two of a new key and one of another key, which is "a" in every fourth tick."""
    made = []
    for tick in range(first, first + ticks):
        for key in (f"k{tick:03}", f"k{tick:03}", "a" if tick % 4 == 0 else f"m{tick:03}"):
            n = 3 * (tick - 1) + len(made) % 3
            made.append(Record("events", "id", 0, n, 10 * n, key.encode(), json.dumps({"n": n}).encode(), tick, 10 * n))
    return made


def policy(keep_ms: int = 7 * DAY, *, every_ms: int = DAY, vacuum: bool = True) -> UpkeepPolicy:
    from lakehouse.spark.silver.upkeep import UpkeepPolicy

    return UpkeepPolicy(3, keep_ms, every_ms, None, vacuum)


class Killed(Exception):
    """The process ended."""


class Killing:
    """A clock that ends the process."""

    @staticmethod
    def now(_: Any) -> datetime:
        raise Killed


class Bench:
    """A lake of the application, and the content of its tables."""

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        self.spark, self.layout = spark, layout
        self.records: list[Record] = []

    @property
    def lake(self) -> OpenLake:
        return open_lake(self.spark, self.layout)

    def add(self, ticks: int) -> None:
        """Write ticks into bronze, and take them in one by one."""
        from lakehouse.run.scenario.replay import write_bronze

        more = history(ticks, len(self.records) // 3 + 1)
        self.records += more
        write_bronze(self.lake, APP, more)
        self.catch_up(*range(more[0].tick, more[-1].tick + 1))

    def catch_up(self, *ticks: int) -> None:
        """Take in ticks of bronze one by one; without ticks all at once."""
        from lakehouse.spark.silver.query import Silver

        with Silver(self.lake, APP, lambda tick, records: None) as silver:
            for tick in ticks or (None,):
                silver.catch_up(tick)

    def rows(self, table: Table, at: Any = None) -> dict[Any, Any]:
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.history import reading

        frame = reading.read_rows(self.lake.open(table), at)
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))

    def expected(self, table: Table, tick: int) -> dict[Any, Any]:
        then = [record for record in self.records if record.tick <= tick]
        return dict(model.run(APP, then, decode_record).tables[table.name])

    def upkeep(self, table: Table, policy: UpkeepPolicy, published: dict[str, int] | None = None) -> dict[str, Any]:
        from lakehouse.spark.silver.upkeep import upkeep_table

        outcome = upkeep_table(self.lake.open(table), policy, datetime.now(UTC), published)
        return {item.name: item for item in outcome}

    def changes(self, *, net: bool) -> list[Any]:
        from lakehouse.spark.changelog import changefeed
        from lakehouse.spark.changelog.net import net_changes

        read = net_changes if net else changefeed.per_event
        last = self.records[-1].tick
        return [tuple(row) for row in read(self.lake.open(SUMS), 1, last).collect()]

    def streamed(self, checkpoint: Path) -> list[tuple[Any, ...]]:
        """The new rows for a streaming reader of the table's change data feed."""
        got: list[tuple[Any, ...]] = []

        def take(frame: Any, _: int) -> None:
            got.extend(tuple(row) for row in frame.select("id", "n", "_change_type", "_commit_version").collect())

        reader = self.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
        writer = reader.load(self.layout.silver("sums")).writeStream.foreachBatch(take)
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        return got


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    from lakehouse.lake.layout import Layout

    return Bench(spark, Layout(str(tmp_path / "lake")))


@pytest.mark.slow
def test_few_files_and_every_version_as_before(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from delta.tables import DeltaTable

    from lakehouse.cli.main import main
    from lakehouse.spark.silver import upkeep
    from lakehouse.spark.silver.query import Silver

    # A batch into a table of few rows would write these anew, as one file.
    monkeypatch.setattr("lakehouse.spark.fold.merge.ROWS_MAX", 0)
    bench.add(5)
    path = bench.layout.silver("sums")
    newest = DeltaTable.forPath(bench.spark, path).history(1).collect()[0]["version"]
    versions = {version: bench.rows(SUMS, AtVersion(version)) for version in range(2, newest + 1)}
    net, event = bench.changes(net=True), bench.changes(net=False)
    streamed = bench.streamed(tmp_path / "checkpoint")
    assert len(streamed) > 5

    (tmp_path / "app.py").write_text(SOURCE)
    command = ["upkeep", "--app", str(tmp_path / "app.py"), "--lake", bench.layout.root, "--json"]
    assert main([*command, "--dry-run"]) == 0
    data = {item["name"]: item for item in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {"silver/sums", "silver/often", "state/often", "bronze/records", "quarantine/events"} <= set(data)
    assert DeltaTable.forPath(bench.spark, path).history(1).collect()[0]["version"] == newest
    assert main(["upkeep", "nobody", *command[1:]]) == 2

    done = bench.upkeep(SUMS, policy(every_ms=0)) | bench.upkeep(OFTEN, policy(vacuum=False))
    sums = done["silver/sums"]
    assert sums.files_before > 4
    assert sums.files_after == 1
    assert (sums.anchor, sums.kept) == (5, ("versions of 7 days",))
    again = bench.upkeep(SUMS, policy(vacuum=False))
    assert (again["silver/sums"].optimized, again["silver/sums"].anchor) == (False, None)
    assert set(again) == {"silver/sums", "anchors/sums/kept", "anchors/sums/index"}
    bronze = {item.name: item for item in upkeep.upkeep_bronze(bench.lake, (), policy(vacuum=False))}["bronze/records"]
    assert (bronze.files_before >= 5, bronze.files_after) == (True, 1)

    assert {version: bench.rows(SUMS, AtVersion(version)) for version in versions} == versions
    for table, tick in ((SUMS, 1), (SUMS, 4), (OFTEN, 3)):
        assert bench.rows(table, AtTick(tick)) == bench.expected(table, tick), (table.name, tick)
    assert (bench.changes(net=True), bench.changes(net=False)) == (net, event)
    operations = DeltaTable.forPath(bench.spark, path).history().where("operation = 'OPTIMIZE'").collect()
    assert [(row["operation"], row["userMetadata"]) for row in operations] == [("OPTIMIZE", None)]
    assert bench.streamed(tmp_path / "checkpoint") == [], "a reader of the feed hears nothing of it"

    # The silver query wakes up over the compacted bronze, and finds nothing new there.
    seen: list[tuple[int, int]] = []
    with Silver(bench.lake, APP, lambda tick, records: seen.append((tick, records))) as silver:
        query = silver.start_query(available_now=True)
        query.awaitTermination()
        silver.check_query(query)
    assert seen == []
    bench.add(1)
    assert bench.lake.open(SUMS).read_progress().tick == 6
    assert bench.rows(SUMS) == bench.expected(SUMS, 6)
    assert bench.rows(OFTEN) == bench.expected(OFTEN, 6)
    later = bench.streamed(tmp_path / "checkpoint")
    assert {row[0] for row in later} == {"k006", "m006"}
    assert bench.changes(net=True)[: len(net)] == net


@pytest.mark.slow
def test_an_anchor_serves_when_the_versions_are_gone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import AnalysisException

    from lakehouse.lake.moment.cut import Cut
    from lakehouse.spark.history import anchors
    from lakehouse.spark.table import files
    from lakehouse.spark.transaction import read_properties

    vacuum = files.vacuum_files

    def at_once(spark: SparkSession, path: str, keep_ms: int) -> None:
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")  # it demands at least an hour
        vacuum(spark, path, keep_ms)

    monkeypatch.setattr(files, "vacuum_files", at_once)
    bench.add(3)
    with monkeypatch.context() as patched:
        patched.setattr(anchors, "datetime", Killing)  # the rows are copied, but not yet in the index
        with pytest.raises(Killed):
            bench.upkeep(SUMS, policy(every_ms=0))
    assert bench.upkeep(SUMS, policy(every_ms=0))["silver/sums"].anchor == 3
    bench.add(3)
    path = bench.layout.silver("sums")
    old = next(c for c in bench.lake.commits(bench.lake.open(SUMS).visible) if c.tick == 4)

    # A net changelog lags behind: what it still has to read is kept, whatever the policy says.
    kept = bench.upkeep(SUMS, policy(1000), {"sums-changes": 1})["silver/sums"].kept
    assert kept == (
        "versions of 1 seconds",
        "versions of 1 days, since topic sums-changes has the changes up to tick 1",
    )
    assert read_properties(bench.spark, path)["delta.deletedFileRetentionDuration"] == "interval 86400 seconds"
    assert len(bench.changes(net=True)) > 5

    time.sleep(1.2)
    before = bench.upkeep(SUMS, policy(1000), {"sums-changes": 6})["silver/sums"]
    assert (before.anchor, before.kept) == (None, ("versions of 1 seconds",))
    assert before.bytes_after < before.bytes_before
    with pytest.raises(AnalysisException):
        bench.lake.read(path, old.version).collect()
    with pytest.raises(NotFound, match="no longer has the net changes after tick 1"):
        bench.changes(net=True)
    assert len(bench.changes(net=False)) == 15
    actual = anchors.nearest_anchor(bench.lake.open(SUMS), Cut(5))
    assert actual is not None
    assert actual.tick == 3
    for tick in (2, 3, 5):
        assert bench.rows(SUMS, AtTick(tick)) == bench.expected(SUMS, tick), tick
    bench.add(1)
    assert bench.rows(SUMS) == bench.expected(SUMS, 7)
    anchors.drop_anchors(bench.lake.open(SUMS), [3])
    assert bench.rows(SUMS, AtTick(4)) == bench.expected(SUMS, 4), "bronze tells it as well"


@pytest.mark.rotated
def test_a_rebuilt_table_has_no_anchors_of_the_damaged_one(bench: Bench) -> None:
    from lakehouse.spark.history import anchors

    bench.add(2)
    bench.spark.sql(f"UPDATE delta.`{bench.layout.silver('sums')}` SET n = 1000")  # what an audit finds
    assert bench.upkeep(SUMS, policy(every_ms=0, vacuum=False))["silver/sums"].anchor == 2
    bench.add(2)
    shutil.rmtree(bench.layout.silver("sums"))  # and what it advises
    bench.catch_up()
    assert anchors.read_index(bench.lake.open(SUMS)) == []
    for tick in (2, 3, 4):
        assert bench.rows(SUMS, AtTick(tick)) == bench.expected(SUMS, tick), tick
