"""Tables of one batch that read the same source: it is decoded once, held during the batch, and released.

ticks    1 2 | 3 4          each | is a batch
wide     ####  ####         three tables at the same tick: a record is decoded once
behind   ----  #########    a table that starts later decodes its own, longer range
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakehouse as lh
from lakehouse.formats.decode import decode_record, part_decoder
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.run.scenario.replay import read_result, write_bronze
from lakehouse.semantics.record import Record
from lakehouse.spark.batch_cache import BatchCache
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog import changefeed, upstream
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.part import record_part
from lakehouse.spark.silver import writer
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.silver.writer import SilverWriter
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.table.input import TableInput

# CSV is decoded in Python, where a test can count it.
EVENTS = lh.stream("events", key="id string", schema="city string, n bigint", format="delimited")
OTHERS = lh.stream("others", key="id string", schema="x bigint", format="delimited")
LATEST = EVENTS.latest("latest")
COUNTS = EVENTS.filter("n <> 3").group_by("city").agg(rows=lh.count(), n=lh.sum("n")).table("counts")
HOURS = EVENTS.group_by("id").window(lh.tumbling("1 hour")).agg(n=lh.max("n")).table("hours")
WIDE = lh.app(LATEST, COUNTS, HOURS)
TICKS, EACH = 4, 6


def test_a_filter_decodes_no_record_again(spark: SparkSession) -> None:
    source = lh.stream("numbers", key="id string", schema="n bigint").source
    frame = decode_records(source, spark.createDataFrame([], bronze.SCHEMA)).where("NOT _bad").select("id", "n")
    plan_text = frame._jdf.queryExecution().executedPlan().toString()
    assert plan_text.count("from_json(") == 1


def history(ticks: int = TICKS, bad: int | None = None) -> list[Record]:
    """Records of keys a, b, c and of two cities; the one with the number `bad` does not fit."""
    made = []
    for n in range(ticks * EACH):
        text = "Lima,x" if n == bad else f"{'Lima' if n % 2 else 'Rome'},{n}"
        made.append(
            Record("events", "id", 0, n, n * 600_000, b"abc"[n % 3 :][:1], text.encode(), n // EACH + 1, n * 600_000)
        )
    return made


class Bench:
    """A lake, the values decoded in it, and what Spark holds."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.lake = spark, open_lake(spark, Layout(str(folder / "lake")))
        self.log = folder / "decoded"
        self.held_before = self._held()

    def write(self, app: App, records: list[Record]) -> None:
        write_bronze(self.lake, app, records)

    def catch_up(self, app: App, *ticks: int) -> None:
        with Silver(self.lake, app, lambda tick, count: None) as silver:
            for tick in ticks:
                silver.catch_up(tick)
                self.check_nothing_held()

    def check(self, app: App, records: list[Record]) -> None:
        result, expected = (
            read_result(self.lake, app, records, records[-1].tick),
            model.run(app, records, decode_record),
        )
        assert result.tables == expected.tables
        assert result.changelogs == expected.changelogs
        assert [record for record, _ in result.quarantine["events"]] == [r for r, _ in expected.quarantine["events"]]

    def decoded(self) -> list[str]:
        """The values that were decoded since the last call."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return sorted(lines)

    def check_nothing_held(self, wait_s: float = 0.0) -> None:
        """Check it at once; or within a time, while both collectors of garbage are called.

        Spark's cleaner frees a frame that no batch releases when nothing refers to it any more; so it may free frames
        of earlier tests meanwhile.
        """
        deadline = time.monotonic() + wait_s
        while self._held_since() and time.monotonic() < deadline:
            gc.collect()
            cast(Any, self.spark._jvm).System.gc()
            time.sleep(0.2)
        assert not self._held_since()

    def _held_since(self) -> list[str]:
        return [text for number, text in self._held().items() if number not in self.held_before]

    def _held(self) -> dict[int, str]:
        """The RDDs that Spark holds, by their numbers; and the number of its frames, as one of them.

        Without those in which Delta keeps a table's log.
        """
        jvm_session: Any = self.spark._jsparkSession
        frame_count = jvm_session.sharedState().cacheManager().numCachedEntries()
        rdds = {rdd.id(): rdd.toString() for rdd in self.spark.sparkContext._jsc.getPersistentRDDs().values()}
        frames = {-number: f"frame {number}" for number in range(1, frame_count + 1)}
        return frames | {number: text for number, text in rdds.items() if "Delta Table State" not in text}


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    log = str(tmp_path / "decoded")

    def logged_decoder(name: str, format: str, columns: Any, schemas: Any) -> Any:
        decode = part_decoder(name, format, columns, schemas)

        def logged(data: bytes | None) -> Any:
            if format == "delimited" and data is not None:
                with Path(log).open("a") as file:
                    file.write(data.decode() + "\n")
            return decode(data)

        return logged

    monkeypatch.setattr(record_part, "part_decoder", logged_decoder)
    return Bench(spark, tmp_path)


def values(records: list[Record]) -> list[str]:
    return sorted(record.value.decode() for record in records if record.value is not None)


@pytest.mark.slow
def test_a_record_is_decoded_once_for_three_tables(bench: Bench) -> None:
    records = history()
    bench.write(WIDE, records)
    bench.catch_up(WIDE, 2)
    assert bench.decoded() == values(records[: 2 * EACH])
    bench.catch_up(WIDE, 3, 4)
    assert bench.decoded() == values(records[2 * EACH :])
    bench.check(WIDE, records)


@pytest.mark.slow
def test_a_table_that_lags_behind_decodes_its_own_range(bench: Bench) -> None:
    records = history()
    bench.write(WIDE, records)
    bench.catch_up(lh.app(LATEST, HOURS), 2)
    bench.decoded()
    bench.catch_up(WIDE, 4)
    assert bench.decoded() == sorted(values(records) + values(records[2 * EACH :]))
    bench.check(WIDE, records)


@pytest.mark.rotated
def test_counts_of_each_table_with_a_bad_record_and_an_idle_topic(bench: Bench) -> None:
    """Each table has its own counts, also in a batch without records of the source."""
    beside = lh.app(LATEST, COUNTS, OTHERS.latest("others"))
    records = history(ticks=2, bad=4)
    rest = [Record("others", "id-2", 0, n, n, b"a", b"%d" % n, 3, n) for n in range(2)]
    bench.write(beside, [*records, *rest])
    bench.catch_up(beside, 2)
    assert bench.decoded() == values(records)  # also for the quarantine
    bench.catch_up(beside, 3)
    bench.check(beside, [*records, *rest])
    for table in (LATEST, COUNTS):
        batches = [commit.batch for commit in bench.lake.commits(bench.lake.open(table).state)]
        assert sum(batch.counts.records for batch in batches if batch) == len(records)
        assert sum(batch.counts.bad for batch in batches if batch) == 1


@pytest.mark.slow
def test_tables_over_tables_read_what_is_shared(bench: Bench) -> None:
    """The changes of a table are derived from its records, which are already decoded for the same batch."""
    cities = COUNTS.to_stream().group_by("rows").agg(n=lh.count()).table("cities")
    app = lh.app(COUNTS, cities)
    records = history(ticks=2)
    bench.write(app, records)
    bench.catch_up(app, 1, 2)
    assert bench.decoded() == values(records)
    bench.check(app, records)


@pytest.mark.slow
def test_final_results_are_made_of_records_that_are_decoded_once(bench: Bench) -> None:
    """The table keeps what may still change, and shows what is out: both are folded from the same records."""
    by_id = EVENTS.group_by("id").window(lh.tumbling("1 hour", grace="0 seconds"))
    app = lh.app(by_id.agg(n=lh.max("n")).table("finals", emit="final"))
    records = history(ticks=3)
    bench.write(app, records)
    for tick in (1, 2, 3):
        bench.catch_up(app, tick)
    assert bench.decoded() == values(records)
    bench.check_nothing_held()
    bench.check(app, records)


@pytest.mark.slow
def test_the_changes_of_a_table_are_derived_once_along_a_chain(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table below needs them: to take them in, or to derive the changes of the table that it reads."""
    large = LATEST.filter("n > 2").table("large")
    cities = large.group_by("city").agg(rows=lh.count(), n=lh.sum("n")).table("cities")
    full = cities.filter("rows > 1").table("full")
    app = lh.app(LATEST, large, cities, full)
    derived: list[str] = []

    def counted(opened: OpenTable, *arguments: Any, **named: Any) -> DataFrame:
        derived.append(opened.name)
        return changefeed.per_event(opened, *arguments, **named)

    monkeypatch.setattr(upstream, "per_event", counted)
    records = history(ticks=2)
    bench.write(app, records)
    for tick in (1, 2):
        bench.catch_up(app, tick)
        assert sorted(derived) == ["cities", "large", "latest"]
        derived.clear()
    monkeypatch.undo()
    bench.check(app, records)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["merge", "decode"])
def test_nothing_is_held_after_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def failing(name: str) -> Callable[..., None]:
        def fail(*arguments: object, **named: object) -> None:
            raise RuntimeError(f"{name} failed")

        return fail

    records = history(ticks=1)
    bench.write(WIDE, records)
    with Silver(bench.lake, WIDE, lambda tick, count: None) as silver:
        with monkeypatch.context() as patched:
            patched.setattr(
                *((writer, "merge_batch") if where == "merge" else (record_part, "part_decoder")), failing(where)
            )
            with pytest.raises(Exception, match=f"{where} failed"):
                silver.catch_up(1)
            bench.check_nothing_held(wait_s=30.0)  # an error refers to the frames of the step that it ended
        silver.catch_up(1)
    bench.check_nothing_held()
    bench.check(WIDE, records)


def test_a_tick_that_ingest_appends_meanwhile_does_not_cause_decoding_again(bench: Bench) -> None:
    records = history(ticks=2)
    bench.write(WIDE, records[:EACH])
    with BatchCache([(LATEST, 0), (COUNTS, 0)], 1) as cache:
        for later in ([], records[EACH:]):
            lake = replace(bench.lake.own_session(), cache=cache)
            bench.write(WIDE, later)
            frame = TableInput(lake, EVENTS).frame(0, 1)
            assert frame.sparkSession is lake.spark
            assert frame.count() == EACH
        assert bench.decoded() == values(records[:EACH])
    bench.check_nothing_held()


def test_one_reader_holds_nothing(bench: Bench) -> None:
    """Nor does the reader of other ticks."""
    with BatchCache([(LATEST, 2), (COUNTS, 1), (COUNTS, 1)], 4) as cache:
        for source, ticks in ((EVENTS.source, (2, 4)), (EVENTS.source, (1, 3)), (OTHERS.source, (1, 4))):
            frame = bench.spark.range(1)
            assert cache.make_once(bench.spark, source, *ticks, lambda frame=frame: frame) is frame
        bench.check_nothing_held()
        assert cache.make_once(bench.spark, EVENTS.source, 1, 4, lambda: bench.spark.range(1)).count() == 1
        assert bench._held() != bench.held_before
    bench.check_nothing_held()


@pytest.mark.rotated
def test_a_table_whose_batch_is_divided_is_no_reader(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SilverWriter, "takes_all_at_once", lambda writer, to: writer.table is not HOURS)
    app = lh.app(LATEST, HOURS)
    records = history(ticks=1)
    bench.write(app, records)
    bench.catch_up(app, 1)
    assert bench.decoded() == sorted(2 * values(records))
