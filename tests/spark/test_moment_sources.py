"""A moment is the same for Spark and without a JVM: versions, ticks, commit times, offsets and event times.

At each stage of a lake's life both are asked for all of them; Spark also through Hadoop's file systems, as on an object
store.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import LakehouseError
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import past_subject
from lakehouse.lake.moment.files import LakeFiles
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.open_lake import OpenLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = lh.stream("events", key="id string", schema="n bigint")
SUMS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums")
MEANS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n"), mean=lh.avg("n")).table("sums")
FINAL = (
    EVENTS.group_by("id").window(lh.tumbling("10 milliseconds", grace="0 seconds")).agg(n=lh.count())
    .table("final", emit="final")
)  # fmt: skip
IDLE = EVENTS.latest("idle")
APP = lh.app(SUMS, FINAL)
FAR_MS = 4_102_444_800_000


def history(keys: str, first: int, tick: int, topic: str = "events", topic_id: str = "id") -> list[Record]:
    """A record of each key, ten milliseconds apart, two a tick; `first` is the offset of the first one."""
    times = [10 * (first + n) for n in range(len(keys))]
    return [
        Record(topic, topic_id, 0, first + n, time, key.encode(), json.dumps({"n": n}).encode(), n // 2 + tick, order)
        for n, (key, time, order) in enumerate(zip(keys, times, order_times(times), strict=True))
    ]


@dataclass
class Bench:
    spark: SparkSession
    layout: Layout

    @property
    def lake(self) -> OpenLake:
        return open_lake(self.spark, self.layout)

    def write(self, records: list[Record]) -> int:
        from lakehouse.run.scenario.replay import write_bronze

        return write_bronze(self.lake, APP, records)

    def catch_up(self, app: App = APP, to: int | None = None) -> None:
        from lakehouse.spark.silver.query import Silver

        with Silver(self.lake, app, lambda tick, records: None) as silver:
            silver.catch_up(to)

    def lines(self, table: Table) -> dict[str, Timeline]:
        """The past of a table by the source: without a JVM, by Spark, by Spark through Hadoop's file systems."""
        from lakehouse.spark.table.timelines import timeline_of

        far = Layout(f"file://{self.layout.root}")
        return {
            "files": Timeline(
                LakeFiles(self.layout),
                past_subject.visible_subject(self.layout, table.name, past_subject.TableInputs.of_stream(table.stream)),
            ),
            "by name": History(self.layout, table.name).timeline,
            "spark": timeline_of(self.lake.open(table)),
            "hadoop": timeline_of(open_lake(self.spark, far).open(table)),
        }

    def moments(self, table: Table) -> list[At]:
        line = self.lines(table)["files"]
        times = sorted({version.time_ms for version in line.versions()})
        ends = [0, 1, 2, 4, 5, 6, 8, 99]
        return [
            *map(AtVersion, range(line.newest_version + 2)),
            *map(AtTick, range(line.complete_tick + 2)),
            *map(AtCommit, {times[0] - 1, times[0], times[-1] - 1, times[-1], int(time.time() * 1000), FAR_MS}),
            *map(AtEvent, (-1, 0, 15, 20, 49, 1_000)),
            *(AtOffsets({"events": {0: end}}) for end in ends),
            *map(
                AtOffsets, ({"other": {0: 1}}, {"events": {0: 2}, "other": {0: 1}}, {"events": {0: 2}, "nix": {0: 1}})
            ),
        ]

    def agree(self, *tables: Table) -> None:
        """Ask all sources for all moments of these tables."""
        for table in tables:
            expected: dict[str, Any] = {}
            moments = self.moments(table)
            for source, line in self.lines(table).items():
                result = {str(at): answer(line, at) for at in moments}
                result |= {"applied": line.applied_tick, "now": answer(line, None), "span": line.span()}
                expected = expected or result
                assert result == expected, f"{table.name}, by {source}"
            assert any(isinstance(item, str) for item in expected.values()), "some are refused"


def answer(line: Timeline, at: At | None) -> Any:
    """The records that count and the version; or the reason why there is none, which must be the same for both."""
    said: list[Any] = []
    for asked in (line.cut, line.version):
        try:
            said.append(asked(at))
        except LakehouseError as error:
            said.append(f"{type(error).__name__}: {error}")
    if isinstance(said[0], str) or isinstance(said[1], str):
        assert said[0] == said[1]
        return said[0]
    return tuple(said)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, Layout(str(tmp_path / "lake")))


@pytest.mark.slow
def test_both_agree_on_every_moment(bench: Bench) -> None:
    """Ticks 2 and 3 are taken in together, 4 is another topic's, 5 waits; then an intervention, a revert, a swap."""
    from lakehouse.run.repair.backfill import backfill, revert
    from lakehouse.spark.history import reading
    from lakehouse.spark.table import tables

    bench.write(history("abacbd", 0, 1))
    tables.create_table(bench.lake.open(IDLE))
    bench.catch_up(to=1)
    bench.catch_up(to=3)
    bench.write(history("x", 0, 4, "other"))
    bench.write(history("ae", 6, 5))
    bench.agree(SUMS, FINAL, IDLE)
    assert [bench.lines(SUMS)["spark"].applied_tick, bench.lines(IDLE)["spark"].applied_tick] == [3, 0]

    bench.catch_up()
    back = revert(bench.lake.open(SUMS), APP, reading.cut_at(bench.lake.open(SUMS), AtTick(1)))
    assert back.tick == 6
    bench.agree(SUMS)

    new = lh.app(MEANS, FINAL)
    assert backfill(bench.lake.open(MEANS), new).tick == 7
    bench.agree(MEANS)


# Slow: the core has all sources and moments below, on a topic that was recreated.
@pytest.mark.slow
def test_both_wait_for_an_intervention_that_nobody_has_applied(bench: Bench) -> None:
    from lakehouse.lake.moment import applied_records
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.history import reading

    bench.write(history("abac", 0, 1))
    bench.catch_up()
    bench.write(history("x", 0, 3, "other"))
    state = interventions.take_over_bronze(bench.lake)
    interventions.record_intervention(
        bench.lake, state, interventions.InterventionRequest("revert", ("sums",), {"tick": 1})
    )
    bench.agree(SUMS)
    assert (
        applied_records.read_applied_records(bench.layout, SUMS, None).cut.tick
        == reading.applied_tick(bench.lake.open(SUMS))
        == 2
    )
    assert applied_records.read_applied_records(bench.layout, FINAL, None).cut.tick == 4


@pytest.mark.slow
def test_both_agree_where_logs_and_files_are_gone(bench: Bench) -> None:
    """Delta removes old log entries after a checkpoint, VACUUM files; then bronze's rows give the offsets."""
    bench.write(history("abacbdae", 0, 1))
    for tick in (1, 2, 3):
        bench.catch_up(to=tick)
    for path, kept in ((bench.layout.silver("sums"), 3), (bench.layout.records, 1)):
        forget(bench.spark, path, kept)
    assert [said.version for said in bench.lines(SUMS)["files"].log.walk_back()][-1] > 0
    bench.agree(SUMS)
    assert bench.lines(SUMS)["hadoop"].cut(AtOffsets({"events": {0: 6}})).ids == {"events": "id"}


def forget(spark: SparkSession, path: str, kept: int) -> None:
    """Remove all but the last commits from the log, as Delta does after a checkpoint."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    log = Path(path, "_delta_log")
    versions = sorted(int(file.stem) for file in log.glob("*.json"))
    assert list(log.glob(f"{versions[-1]:020}.checkpoint*.parquet"))
    for version in versions[:-kept]:
        for file in log.glob(f"{version:020}.*"):
            file.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


@pytest.mark.rotated
def test_offsets_are_those_of_the_present_topic(bench: Bench) -> None:
    """Spark mistook the offsets of an earlier topic of that name for the present ones: rows were missing in silence."""
    from lakehouse.spark.history import reading

    bench.write(history("abac", 0, 1))
    bench.write(history("de", 0, 3, topic_id="new"))
    bench.catch_up()
    bench.agree(SUMS)
    rows = reading.read_rows(bench.lake.open(SUMS), AtOffsets({"events": {0: 1}})).collect()
    assert sorted((row["id"], row["n"]) for row in rows) == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]


@pytest.mark.rotated
def test_a_job_starts_where_the_log_has_lost_the_last_records(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asked Delta for version 0, or began after a tick that came while the tables caught up."""
    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.silver.query import Silver

    bench.write(history("abac", 0, 1))
    bench.catch_up(to=1)
    for _ in range(2):
        bronze.open_bronze_epoch(bench.lake)
    forget(bench.spark, bench.layout.records, 1)
    catch_up = Silver.catch_up

    def catch_up_before_a_tick(silver: Silver, to_tick: int | None = None) -> None:
        catch_up(silver, to_tick)
        monkeypatch.setattr(Silver, "catch_up", catch_up)
        bench.write(history("e", 4, 3))

    monkeypatch.setattr(Silver, "catch_up", catch_up_before_a_tick)
    with Silver(bench.lake, APP, lambda tick, records: None) as silver:
        query = silver.start_query(available_now=True)
        query.awaitTermination()
        silver.check_query(query)
        assert silver.tick == 3
    assert bench.lake.read(bench.layout.silver("sums")).count() == 4


@pytest.mark.rotated
def test_a_recreated_topic_keeps_the_offsets_of_its_predecessor(bench: Bench) -> None:
    """A restored table took in again what its changelog had from the deleted topic."""
    from lakehouse.spark.bronze import bronze, gaps
    from lakehouse.spark.changelog import published

    bench.write(history("abac", 0, 1))
    lost = gaps.Gap("events", "id", 0, 4, None, "the topic was deleted and recreated (id new)")
    gaps.record_gaps(bench.lake, [lost], bronze.read_state(bench.lake))
    bench.write(history("de", 0, 3, topic_id="new"))
    assert bronze.next_offsets(bench.lake, "events", 2) == {"id": {"0": 4}}
    ends = {"id": {"0": 4}, "new": {"0": 2}}
    assert bronze.next_offsets(bench.lake, "events", 3) == published.next_offsets(bench.lake, SUMS, 3) == ends
    waiting = {"id": {"0": 9}, "new": {"0": 2}}
    assert [bronze.has_all_records(bench.lake, ["events"], waiting, tick) for tick in (2, 3)] == [False, True]
    forget(bench.spark, bench.layout.records, 1)
    for _ in range(2):
        bronze.open_bronze_epoch(bench.lake)
    forget(bench.spark, bench.layout.records, 1)
    assert [*bronze.next_offsets(bench.lake, "events", 3).items()] == [*ends.items()]


@pytest.mark.rotated
def test_a_visible_table_gets_what_a_log_no_longer_has(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two tables, then a pause in which Delta removed the state's commit: a batch was missing."""
    from lakehouse.spark.silver.writer import SilverWriter
    from lakehouse.spark.transaction import open_epoch

    often = EVENTS.group_by("id").agg(n=lh.count()).having("n > 1").table("often")
    app = lh.app(often)
    bench.write(history("abacbd", 0, 1))
    bench.catch_up(app, to=1)

    update = SilverWriter._update_visible

    def die_behind_the_state(writer: SilverWriter, to_tick: int, *arguments: Any) -> None:
        if to_tick == 3:
            raise KeyboardInterrupt
        update(writer, to_tick, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(SilverWriter, "_update_visible", die_behind_the_state)
        with pytest.raises(KeyboardInterrupt):
            bench.catch_up(app, to=3)
    state = bench.lake.open(often).state
    assert bench.lake.progress(state).tick == 3
    open_epoch(bench.spark, state, 1 + bench.lake.progress(state).epoch)
    forget(bench.spark, state.path, 1)
    bench.catch_up(app)
    rows = bench.lake.read(bench.layout.silver("often")).collect()
    assert sorted((row["id"], row["n"]) for row in rows) == [("a", 2), ("b", 2)]
