"""A numbered commit costs what it writes: an append does not read the whole log, one without rows runs no job."""

from __future__ import annotations

from pathlib import Path

import pytest
from delta.exceptions import ConcurrentTransactionException
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.errors import Fenced
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import UnchangedRows, VisibleCommit
from lakehouse.lake.place import TablePlace
from lakehouse.semantics.commit_number import Progress
from lakehouse.spark.jvm import delta_log
from lakehouse.spark.transaction import append, append_empty_commit, numbered_writes, open_epoch, read_progress

NAME = "things"
CONTENT = VisibleCommit(from_tick=0, run="run", keys=3)


@pytest.fixture
def things(tmp_path: Path, spark: SparkSession) -> TablePlace:
    made = DeltaTable.createIfNotExists(spark).location(str(tmp_path / "t")).addColumn("x", "bigint")
    made.property("delta.enableInCommitTimestamps", "true").execute()
    return TablePlace(str(tmp_path / "t"), NAME)


def test_a_numbered_append_does_not_put_the_tables_state_together(spark: SparkSession, things: TablePlace) -> None:
    open_epoch(spark, things)  # the first one looks up where a snapshot keeps its state
    append(spark.range(3).toDF("x"), things, Progress(1, 1), CONTENT)
    before = delta_log.newest_snapshot(spark, things.path).java
    append(spark.range(3).toDF("x"), things, Progress(1, 2), CONTENT)
    assert not before._computedStateTriggered()
    with numbered_writes(spark, things, Progress(1, 3), CONTENT):
        spark.range(1).toDF("x").write.format("delta").mode("append").save(things.path)
    assert read_progress(spark, things) == Progress(1, 3)


def test_a_commit_without_rows_needs_no_job(spark: SparkSession, things: TablePlace) -> None:
    open_epoch(spark, things)
    context = spark.sparkContext
    context.setJobGroup("without rows", "")
    try:
        append_empty_commit(spark, things, Progress(1, 1), UnchangedRows(operation="nothing"))
        spark.range(1).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type, unused-ignore]
    assert len(context.statusTracker().getJobIdsForGroup("without rows")) == 1  # that of the range
    newest = next(iter(reader.open_table(things.path, things.path).history(1)))
    metadata = reader.parse_commit(newest, things.path)
    assert metadata is not None
    assert (metadata.app, metadata.number.epoch, metadata.tick) == (f"lakehouse.{NAME}", 1, 1)
    assert metadata.content == UnchangedRows(operation="nothing")


def test_the_state_given_to_a_snapshot_is_the_one_that_delta_computes(spark: SparkSession, things: TablePlace) -> None:
    open_epoch(spark, things)
    append(spark.range(3).toDF("x"), things, Progress(1, 1), CONTENT)
    append_empty_commit(spark, TablePlace(things.path, "others"), Progress(7, 9), CONTENT)
    snapshot = delta_log.newest_snapshot(spark, things.path)
    newest = snapshot.java
    assert not newest._computedStateTriggered()
    told, actual = newest.computedState(), newest.extractComputedState(newest.stateDF())
    for name in ("sizeInBytes", "numOfSetTransactions", "numOfFiles", "numOfMetadata", "numOfProtocol"):
        assert getattr(told, name)() == getattr(actual, name)() > 0
    for name in ("setTransactions", "domainMetadata"):
        assert getattr(told, name)().toSet().equals(getattr(actual, name)().toSet())
    for name in ("metadata", "protocol", "numDeletedRecordsOpt", "numDeletionVectorsOpt"):
        assert getattr(told, name)().equals(getattr(actual, name)())
    numbers = {item.appId(): item.version() for item in map(actual.setTransactions().apply, range(2))}
    assert {name: newest.transactions().apply(name) for name in numbers} == numbers == snapshot.transaction_numbers()


def test_an_older_number_without_rows_is_refused(spark: SparkSession, things: TablePlace) -> None:
    open_epoch(spark, things, 2)
    with pytest.raises(Fenced, match="Another writer has taken it over"):
        append_empty_commit(spark, things, Progress(1, 5), CONTENT)
    assert read_progress(spark, things) == Progress(2, 0)


def test_two_commits_without_rows_of_one_table_at_once_are_a_conflict(
    spark: SparkSession, things: TablePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_epoch(spark, things)
    real = delta_log.JavaSnapshot.transaction_numbers
    calls = []

    def numbers(snapshot: delta_log.JavaSnapshot) -> dict[str, int] | None:
        """The other writer commits after this one has read the number."""
        known = real(snapshot)
        if not calls:
            calls.append(1)
            delta_log.commit_number(spark, things.path, f"lakehouse.{NAME}", Progress(1, 8).version, "{}")
        return known

    monkeypatch.setattr(delta_log.JavaSnapshot, "transaction_numbers", numbers)
    with pytest.raises(ConcurrentTransactionException):
        delta_log.commit_number(spark, things.path, f"lakehouse.{NAME}", Progress(1, 9).version, "{}")
    assert read_progress(spark, things) == Progress(1, 8)


def test_where_this_delta_keeps_its_state_is_known_without_a_job(
    spark: SparkSession, things: TablePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "_bits", [])
    newest = delta_log.newest_snapshot(spark, things.path).java
    assert not newest._computedStateTriggered()
    known = delta_log.KNOWN_BITS[delta_log.class_hash(newest)]
    # Told by nobody, a snapshot of the same version sets the bit itself.
    monkeypatch.setattr(delta_log, "_bits", [0])
    open_epoch(spark, things)
    assert delta_log.find_state_bit(delta_log.newest_snapshot(spark, things.path).java) == known


def test_another_delta_finds_its_numbers_itself(
    spark: SparkSession, things: TablePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def field(snapshot: object, name: str) -> object:
        raise RuntimeError(f"java.lang.NoSuchFieldException: {name}")

    monkeypatch.setattr(delta_log, "private_field", field)
    monkeypatch.setattr(delta_log, "_bits", [])
    open_epoch(spark, things)
    append(spark.range(3).toDF("x"), things, Progress(1, 1), CONTENT)
    assert read_progress(spark, things) == Progress(1, 1)
