"""Small tables are rewritten in one pass: rows, change data feed and history are those that Delta's MERGE leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.errors import Fenced
from lakehouse.lake.commit_metadata import UnchangedRows
from lakehouse.lake.place import TablePlace
from lakehouse.semantics.commit_number import Progress
from lakehouse.spark.fold.bounds import hold_with_bounds
from lakehouse.spark.fold.merge import RowMerge, merge_batch
from lakehouse.spark.jvm import table_rewrite
from lakehouse.spark.jvm.capability import Capability, is_available
from lakehouse.spark.jvm.session.session import new_session
from lakehouse.spark.jvm.table_rewrite import TableRewriter, WriteNumber
from lakehouse.spark.transaction import numbered_writes, open_epoch
from tests.seeds import DRAWN, draw

# The names that the rewrite gives its own columns are here, too.
KEY = "id string, s int"
VALUES = "t bigint, change double, old struct<a: int, b: array<string>>, new map<string, int>, written string"
TABLE = lh.stream("things", key=KEY, schema=VALUES).latest("things")
SCHEMA = f"{KEY}, {VALUES}"
CONTENT = UnchangedRows(operation="batch")
COUNTS = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numTargetRowsCopied",
    "numSourceRows",
)


class ByChange(RowMerge):
    """A row counts if its `change` is larger; a null is not."""

    def is_newer(self) -> Column | None:
        return F.col("s.change") > F.col("t.change")


class Target:
    """A table in Delta, and its next batch's number."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark, self.place, self.tick = spark, TablePlace(str(path), "things"), 0
        builder = DeltaTable.createIfNotExists(spark).location(self.place.path)
        for field in spark.createDataFrame([], SCHEMA).schema:
            builder = builder.addColumn(field.name, field.dataType)
        builder.property("delta.enableChangeDataFeed", "true").execute()
        open_epoch(spark, self.place)
        self.rewriter = TableRewriter(self.place.path)

    def take(self, rows: list[tuple[Any, ...]], row_merge: RowMerge) -> None:
        self.tick += 1
        batch = hold_with_bounds(self.spark.createDataFrame(rows, f"{SCHEMA}, _tombstone boolean"), row_merge.table.key)
        with numbered_writes(self.spark, self.place, Progress(1, self.tick), CONTENT) as number:
            merge_batch(self.spark, self.place.path, row_merge, batch, number, self.rewriter)
        batch.memory.release()

    def read(self) -> Counter[str]:
        return texts(self.spark.read.format("delta").load(self.place.path))

    def changes(self) -> Counter[str]:
        version = self.history()["version"]
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        feed = feed.option("startingVersion", version).option("endingVersion", version)
        return texts(feed.load(self.place.path).drop("_commit_version", "_commit_timestamp"))

    def history(self) -> dict[str, Any]:
        newest = DeltaTable.forPath(self.spark, self.place.path).history(1).first()
        assert newest is not None
        metrics = newest["operationMetrics"]
        return {
            "version": newest["version"],
            "operation": newest["operation"],
            "counts": {name: metrics.get(name) for name in COUNTS},
            "one pass": "scanTimeMs" not in metrics,
        }


def texts(frame: DataFrame) -> Counter[str]:
    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    return Counter(row[0] for row in frame.select(text).collect())


@contextmanager
def merged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the block no table is small."""
    with monkeypatch.context() as patched:
        patched.setattr(table_rewrite, "BYTES_MAX", -1)
        yield


def draw_row(random: Random, key: tuple[Any, ...]) -> tuple[Any, ...]:
    number = random.choice([None, float("nan"), -0.0, 0.0, 1.5, 2.5])
    nested = random.choice([None, (None, None), (7, []), (7, ["x", None])])
    entries = random.choice([None, {}, {"x": 1, "y": None}])
    text = random.choice([None, "", "\u00e9\U0001f600", "a" * 300])
    return (*key, random.choice([None, -(2**63), 5]), number, nested, entries, text, random.random() < 0.25)


@pytest.mark.rotated
@pytest.mark.parametrize("seed", [pytest.param(draw(), id=DRAWN)])
def test_a_rewrite_leaves_what_a_merge_leaves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    assert is_available(Capability.DELTA_REWRITE)
    targets = [Target(spark, tmp_path / name) for name in ("rewritten", "merged")]
    keys = [(text, number) for text in ("a", "b", "", None) for number in (1, None)]
    for tick in range(1, 5):
        row_merge = random.choice([RowMerge, ByChange])(TABLE)
        rows = [draw_row(random, key) for key in random.sample(keys, random.randint(1, len(keys)))]
        targets[0].take(rows, row_merge)
        with merged(monkeypatch):
            targets[1].take(rows, row_merge)
        assert targets[0].read() == targets[1].read(), tick
        assert targets[0].changes() == targets[1].changes(), tick
        rewritten, by_merge = (target.history() for target in targets)
        if tick > 1 and by_merge["operation"] == "MERGE" == rewritten["operation"]:
            assert rewritten.pop("one pass")
            assert not by_merge.pop("one pass")
            assert rewritten["counts"].pop("numTargetRowsCopied") is not None  # a MERGE leaves untouched files alone
            by_merge["counts"].pop("numTargetRowsCopied")
            assert rewritten == by_merge


def row(name: str, number: int = 1, *, is_deleted: bool = False) -> tuple[Any, ...]:
    return (name, number, None, None, None, None, None, is_deleted)


def names(target: Target) -> list[str]:
    return ids(target.spark.read.format("delta").load(target.place.path))


def ids(rows: DataFrame | None) -> list[str]:
    assert rows is not None
    return sorted(row["id"] for row in rows.select("id").collect())


@pytest.mark.rotated
def test_what_others_commit_in_between_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    target, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    for name in ("a", "b", "c"):
        target.take([row(name)], row_merge)
    assert target.history()["one pass"]
    assert ids(target.rewriter.read_rows(spark)) == names(target) == ["a", "b", "c"]
    DeltaTable.forPath(spark, target.place.path).delete("id = 'a'")
    assert target.rewriter.read_rows(spark) is None  # only Delta knows the files of the other commit
    target.take([row("d")], row_merge)
    assert names(target) == ["b", "c", "d"]
    target.take([row(name, is_deleted=True) for name in ("b", "c", "d")], row_merge)
    assert names(target) == []


@pytest.mark.rotated
def test_a_table_of_the_same_path_is_another_table(spark: SparkSession, tmp_path: Path) -> None:
    first, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    for name in ("a", "b"):
        first.take([row(name)], row_merge)
    (tmp_path / "t").rename(tmp_path / "old")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    second = Target(spark, tmp_path / "t")
    for name in ("c", "d"):
        second.take([row(name)], row_merge)
    second.rewriter = first.rewriter  # it remembers files of this version, of the table before
    second.take([row("e")], row_merge)
    assert names(second) == ["c", "d", "e"]


def test_a_writer_that_lost_its_table_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    target, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    for name in ("a", "b"):
        target.take([row(name)], row_merge)
    open_epoch(spark, target.place)
    with pytest.raises(Fenced, match="Another writer has taken it over"):
        target.take([row("c")], row_merge)
    assert names(target) == ["a", "b"]


@pytest.mark.rotated
@pytest.mark.parametrize("other", ["epoch", "rows"])
def test_a_commit_during_a_rewrite_is_a_conflict(spark: SparkSession, tmp_path: Path, other: str) -> None:
    target, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    for name in ("a", "b"):
        target.take([row(name)], row_merge)

    class Interrupted(RowMerge):
        def merged_columns(self, batch_rows: DataFrame, *, has_row: bool) -> dict[str, Column]:
            if has_row and other == "epoch":
                open_epoch(spark, target.place)
            elif has_row:
                DeltaTable.forPath(new_session(spark), target.place.path).update(
                    "id = 'a'", {"written": F.lit("by hand")}
                )
            return super().merged_columns(batch_rows, has_row=has_row)

    with pytest.raises(Fenced if other == "epoch" else ConcurrentAppendException):
        target.take([row("c")], Interrupted(TABLE))
    assert names(target) == ["a", "b"]


@pytest.mark.rotated
@pytest.mark.parametrize("limit", ["BYTES_MAX", "ROWS_MAX", "FILES_MAX"])
def test_a_large_table_is_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    target, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    for name in ("a", "b"):
        target.take([row(name)], row_merge)
    monkeypatch.setattr(table_rewrite, limit, 0)
    target.take([row("c")], row_merge)
    assert not target.history()["one pass"]
    assert names(target) == ["a", "b", "c"]


@pytest.mark.rotated
@pytest.mark.parametrize(
    ("name", "value"), [("delta.enableChangeDataFeed", "false"), ("delta.enableRowTracking", "true")]
)
def test_a_table_of_another_kind_is_merged(spark: SparkSession, tmp_path: Path, name: str, value: str) -> None:
    target, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    target.take([row("a")], row_merge)
    spark.sql(f"ALTER TABLE delta.`{target.place.path}` SET TBLPROPERTIES ('{name}' = '{value}')")
    target.take([row("b")], row_merge)
    assert not target.history()["one pass"]
    assert names(target) == ["a", "b"]


def test_a_rewrite_runs_one_job(spark: SparkSession, tmp_path: Path) -> None:
    target, row_merge = Target(spark, tmp_path / "t"), RowMerge(TABLE)
    for name in ("a", "b"):
        target.take([row(name)], row_merge)
    batch = hold_with_bounds(spark.createDataFrame([row("c")], f"{SCHEMA}, _tombstone boolean"), TABLE.key)
    context = spark.sparkContext
    context.setJobGroup("rewrite", "")
    try:
        number = WriteNumber(f"lakehouse.{target.place.name}", Progress(1, 3).version)
        merge_batch(spark, target.place.path, row_merge, batch, number, target.rewriter)
        spark.range(1).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type, unused-ignore]
    assert len(context.statusTracker().getJobIdsForGroup("rewrite")) == 2  # the second is that of the range
    assert names(target) == ["a", "b", "c"]
