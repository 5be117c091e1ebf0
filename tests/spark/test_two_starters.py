"""Two writers that start at once, without a lease (on an object store): only one of them owns the table.

Both read the same last epoch and choose the same next one. Delta takes one commit of that number and skips the other in
silence, so the number alone does not say whose commit stands there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import Fenced, LeaseHeld
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import bronze_place, visible_place
from lakehouse.run.scenario.replay import KAFKA_SCHEMA, write_bronze
from lakehouse.semantics.record import Record
from lakehouse.spark import transaction
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.bronze.tick import append_tick
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.silver import writer as silver
from lakehouse.spark.silver.writer import SilverWriter
from lakehouse.spark.transaction import check_epoch, read_progress, table_id

from ..good_records import NoneBad

T = 1_700_000_000_000
HOUR = 3_600_000
WORDS = lh.stream("words", key="k string", schema="n bigint", format="json")
COUNTED = WORDS.group_by("k").agg(n=lh.count()).table("counted")
HOURLY = WORDS.group_by("k").window(lh.tumbling("1 hour", grace="0 seconds")).agg(n=lh.count()).table("hourly")
APP = lh.app(COUNTED, HOURLY)


def record(offset: int, tick: int, timestamp: int = T, value: bytes = b'{"n": 1}') -> Record:
    return Record("words", "replay-words", 0, offset, timestamp, b'{"k": "a"}', value, tick, T + HOUR * 10)


@pytest.fixture
def no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an object store: everybody gets the lease."""
    monkeypatch.setattr(Lease, "acquire", lambda self: self)


@pytest.fixture
def layout(tmp_path: Path, spark: SparkSession) -> Layout:
    return Layout(str(tmp_path / "lake"))


def at_once(monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    """When the next writer has read a table's progress, let `other` open its epoch first."""
    real = transaction.read_progress
    calls = []

    def read(*args: Any) -> Any:
        result = real(*args)
        if not calls:
            calls.append(1)
            other()
        return result

    monkeypatch.setattr(transaction, "read_progress", read)


@pytest.mark.rotated
def test_two_writers_of_a_table_do_not_hold_the_same_epoch(
    spark: SparkSession, layout: Layout, no_lease: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bronze(open_lake(spark, layout), APP, [record(n, 1) for n in range(3)])
    first, second = (SilverWriter(open_lake(spark, layout).open(COUNTED), name) for name in ("first", "second"))
    at_once(monkeypatch, first.__enter__)
    with pytest.raises(Fenced, match=r"by another commit\. Another writer has taken it over"), second:
        pass
    monkeypatch.undo()
    assert first.apply(1, NoneBad()) == 3
    assert [row.n for row in spark.read.format("delta").load(layout.silver("counted")).collect()] == [3]


def test_two_writers_of_bronze_do_not_hold_the_same_epoch(
    spark: SparkSession, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bronze(open_lake(spark, layout), APP, [record(0, 1)])
    states: list[Any] = []
    at_once(monkeypatch, lambda: states.append(interventions.take_over_bronze(open_lake(spark, layout))))
    with pytest.raises(Fenced, match="Another writer has taken it over"):
        # It reads the number first, and opens its epoch after the other writer.
        transaction.open_epoch(spark, bronze_place(layout))
    monkeypatch.undo()
    check_epoch(spark, bronze_place(layout), states[0].epoch)


@pytest.mark.rotated
def test_a_swap_or_a_revert_does_not_open_an_epoch_for_a_writer_that_has_lost_the_table(
    spark: SparkSession, layout: Layout, no_lease: None
) -> None:
    write_bronze(open_lake(spark, layout), APP, [record(n, 1) for n in range(3)])
    zombie, successor = (SilverWriter(open_lake(spark, layout).open(COUNTED), name) for name in ("zombie", "successor"))
    with zombie:
        zombie.apply(1, NoneBad())
        state = interventions.take_over_bronze(open_lake(spark, layout))
        interventions.record_intervention(
            open_lake(spark, layout), state, InterventionRequest("revert", ("counted",), {"cut": None})
        )
        with successor:
            before = read_progress(spark, visible_place(layout, COUNTED))
            with pytest.raises(Fenced):
                zombie._apply_intervention(
                    interventions.read_interventions(open_lake(spark, layout), "counted")[0], NoneBad()
                )
            assert read_progress(spark, visible_place(layout, COUNTED)) == before


@pytest.mark.rotated
def test_a_writer_that_has_lost_bronze_records_no_intervention(spark: SparkSession, layout: Layout) -> None:
    write_bronze(open_lake(spark, layout), APP, [record(0, 1)])
    zombie = interventions.take_over_bronze(open_lake(spark, layout))
    successor = interventions.take_over_bronze(open_lake(spark, layout))
    frame = spark.createDataFrame([("words", 0, 1, None, 0, None, b"k", b"v")], KAFKA_SCHEMA)
    append_tick(frame, layout, successor, {"words": {0: 2}}, "successor")
    with pytest.raises(Fenced):
        interventions.record_intervention(open_lake(spark, layout), zombie, InterventionRequest("refold", ("counted",)))
    assert interventions.read_interventions(open_lake(spark, layout), "counted") == []
    with pytest.raises(Fenced):
        append_tick(frame, layout, zombie, {"words": {0: 2}}, "zombie")
    assert spark.read.format("delta").load(layout.records).count() == 2


@pytest.mark.rotated
def test_a_zombie_doubles_neither_the_quarantine_nor_the_late_records(
    spark: SparkSession, layout: Layout, no_lease: None
) -> None:
    first = [record(0, 1, T + HOUR * 10), record(1, 1, T), record(2, 1, T, b"bad")]
    write_bronze(open_lake(spark, layout), APP, [*first, record(3, 2, T, b"bad"), record(4, 2, T)])
    zombie, successor = (SilverWriter(open_lake(spark, layout).open(HOURLY), name) for name in ("zombie", "successor"))

    def applied(writer: SilverWriter, tick: int) -> None:
        bad = silver.QuarantineWriter(open_lake(spark, layout), APP, [writer])
        bad.declare_streams()
        writer.apply(tick, bad)

    with zombie:
        applied(zombie, 1)
        with successor:
            for _ in range(2):  # before and after the successor's first write
                with pytest.raises(Fenced):
                    applied(zombie, 2)
                applied(successor, 2)
    bad = spark.read.format("delta").load(layout.quarantine("words"))
    late = spark.read.format("delta").load(layout.late("hourly"))
    assert sorted(row.offset for row in bad.collect()) == [2, 3]
    assert sorted(row.offset for row in late.collect()) == [1, 4]


def test_all_processes_of_a_new_lake_may_start_at_once(spark: SparkSession, layout: Layout) -> None:
    """Each begins by creating bronze; Delta refuses two who create one table, or one removes the other's log."""
    starters, begin = 4, Barrier(4)

    def start(_: int) -> str:
        begin.wait()
        bronze.create_tables(open_lake(spark, layout), ["own"])
        return table_id(spark, layout.records)

    with ThreadPoolExecutor(starters) as pool:
        assert len(set(pool.map(start, range(starters)))) == 1
    assert open_lake(spark, layout).exists(layout.own_records("own"))


def test_a_local_path_has_one_lease_in_any_spelling_and_a_remote_one_creates_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Lease(f"file://{tmp_path}/one.lock", "x"), pytest.raises(LeaseHeld):
        Lease(f"{tmp_path}/one.lock", "x").acquire()
    with Lease("gs://bucket/lake/control/leases/x.lock", "x"), Lease("gs://bucket/lake/control/leases/x.lock", "x"):
        assert [path.name for path in tmp_path.iterdir()] == ["one.lock"]
