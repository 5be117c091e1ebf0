"""[spark] internals = false: the public interfaces of Spark and Delta alone give what the private parts give.

The core runs what each plain way has of its own, and a few scenarios; `make test-all` runs all scenarios.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.exceptions import ConcurrentTransactionException
from delta.tables import DeltaTable
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.errors import Fenced, PlanError
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import UnchangedRows, VisibleCommit
from lakehouse.lake.place import TablePlace
from lakehouse.model.function.table import FUNCTIONS as MODEL_FUNCTIONS
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.spark_functions.table import RECORDS
from lakehouse.run.scenario.scenario import read_scenario
from lakehouse.semantics.commit_number import Progress
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.expression.java_functions import FUNCTIONS
from lakehouse.spark.jvm import capability, checkpoint, delta_log, folders, plain_log
from lakehouse.spark.jvm.capability import Capability, allow_internals, choose_way
from lakehouse.spark.jvm.in_memory import InMemory
from lakehouse.spark.jvm.tree import ksql_functions
from lakehouse.spark.table.checked import check_application
from lakehouse.spark.transaction import append, append_empty_commit, open_epoch, read_progress
from tests.packed import check_on_spark
from tests.spark.test_expressions import BAD, EXPLICIT, GOOD, IMPLICIT, RAISING, SCHEMA, WORST
from tests.spark.test_scenarios import FOLDER, SCENARIOS, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENT = VisibleCommit(from_tick=0, run="run", keys=3)
FEW = ("explode", "aggregates_top", "join_left_by_arrival", "final_hopping", "join_streams_at_once")


@contextmanager
def internals(*, allowed: bool) -> Iterator[None]:
    allow_internals(allowed=allowed)
    try:
        yield
    finally:
        allow_internals(allowed=False)


@pytest.fixture
def things(tmp_path: Path, spark: SparkSession) -> TablePlace:
    made = DeltaTable.createIfNotExists(spark).location(str(tmp_path / "t")).addColumn("x", "bigint")
    made = made.addColumn("part", "string").partitionedBy("part").property("delta.enableInCommitTimestamps", "true")
    made.property("lakehouse.of_ours", "a, b").execute()
    return TablePlace(str(tmp_path / "t"), "things")


def rows(spark: SparkSession, *parts: str) -> Any:
    return spark.createDataFrame([(number, part) for number, part in enumerate(parts)], "x bigint, part string")


def told(snapshot: delta_log.LogSnapshot) -> dict[str, Any]:
    files = sorted((row["partition"]["part"], row["rows"], row["size"] > 0) for row in snapshot.files().collect())
    names = ("version", "table_id", "created_ms", "properties", "file_count", "total_bytes")
    numbers = {app: snapshot.number_of_app(app) for app in ("lakehouse.things", "lakehouse.others", "nobody")}
    return {name: getattr(snapshot, name) for name in names} | {"numbers": numbers, "files": files}


@pytest.mark.rotated
def test_a_log_says_the_same_by_every_way(plain_spark: SparkSession, things: TablePlace) -> None:
    with internals(allowed=True):
        open_epoch(plain_spark, things)
        append(rows(plain_spark, "a", "b", "b"), things, Progress(1, 1), CONTENT)
        append_empty_commit(plain_spark, TablePlace(things.path, "others"), Progress(7, 9), CONTENT)
        wanted = told(delta_log.newest_snapshot(plain_spark, things.path))
    assert wanted["numbers"] == {
        "lakehouse.things": Progress(1, 1).version, "lakehouse.others": Progress(7, 9).version, "nobody": None
    }  # fmt: skip
    assert [(part, count) for part, count, _ in wanted["files"]] == [("a", 1), ("b", 2)]
    assert told(delta_log.newest_snapshot(plain_spark, things.path)) == wanted
    assert told(plain_log.SparkSnapshot(plain_spark, things.path)) == wanted


@pytest.mark.rotated
def test_a_commit_without_rows_by_an_append(plain_spark: SparkSession, things: TablePlace) -> None:
    open_epoch(plain_spark, things)
    append_empty_commit(plain_spark, things, Progress(1, 1), UnchangedRows(operation="nothing"))
    metadata = reader.parse_commit(reader.open_table(things.path, things.path).history(1)[0], things.path)
    assert metadata is not None
    assert (metadata.number.epoch, metadata.tick, metadata.content) == (1, 1, UnchangedRows(operation="nothing"))
    open_epoch(plain_spark, things, 3)
    with pytest.raises(Fenced, match="Another writer has taken it over"):
        append_empty_commit(plain_spark, things, Progress(1, 5), CONTENT)
    assert read_progress(plain_spark, things) == Progress(3, 1)
    assert plain_spark.read.format("delta").load(things.path).count() == 0


def test_a_held_frame_is_read_once_and_in_any_session(plain_spark: SparkSession) -> None:
    from pyspark.sql import Observation

    observation = Observation()
    frame = plain_spark.range(10).withColumn("r", F.rand()).observe(observation, F.count(F.lit(1)).alias("n"))
    memory = InMemory(frame)
    memory.read(plain_spark)
    assert observation.get["n"] == 10
    first = {row["id"]: row["r"] for row in memory.frame(plain_spark).collect()}
    other = plain_spark.newSession()
    other.conf.set("spark.databricks.delta.commitInfo.userMetadata", "of the other")
    held = memory.frame(other)
    assert {row["id"]: row["r"] for row in held.collect()} == first
    assert held.sparkSession.conf.get("spark.databricks.delta.commitInfo.userMetadata") == "of the other"
    memory.release()


def test_folders_with_a_scheme(plain_spark: SparkSession, tmp_path: Path) -> None:
    """By Hadoop, by pyarrow, and as folders of this machine."""
    seen = []
    for allowed, prefix in ((True, "file://"), (False, "file://"), (False, "")):
        root = f"{prefix}{tmp_path}/lake{len(seen)}"
        with internals(allowed=allowed):
            assert not folders.folder_exists(plain_spark, root)
            assert folders.folder_names(plain_spark, root) == folders.list_content(plain_spark, root) == []
            folders.create_folder(plain_spark, f"{root}/b/c")
            folders.create_folder(plain_spark, f"{root}/a")
            file = tmp_path / f"lake{len(seen)}" / "with space.txt"
            file.write_text("one\ntwo\n", encoding="utf-8")
            file.with_name(".with space.txt.crc").write_text("Hadoop's", encoding="utf-8")
            seen.append(
                (
                    folders.folder_names(plain_spark, root),
                    folders.list_content(plain_spark, root),
                    list(folders.read_lines(plain_spark, f"{root}/with space.txt")),
                    folders.folder_bytes(plain_spark, root),
                    folders.files_exist(plain_spark, [file.as_uri()]),
                    folders.files_exist(plain_spark, [file.as_uri(), file.with_name("gone").as_uri()]),
                )
            )
            with pytest.raises(FileNotFoundError):
                next(folders.read_lines(plain_spark, f"{root}/gone"))
            folders.remove_folder(plain_spark, root)
            folders.remove_folder(plain_spark, root)
            assert not folders.folder_exists(plain_spark, root)
    assert seen == [(["a", "b"], ["a", "b", "with space.txt"], ["one", "two"], 8, True, False)] * 3


def test_the_end_of_a_batch_by_its_rows(plain_spark: SparkSession) -> None:
    batch = plain_spark.createDataFrame(
        [("a", 0, 7), ("a", 0, 9), ("a", 1, 0), ("b", 0, 3)], "topic string, partition int, offset bigint"
    )
    assert checkpoint.batch_end(plain_spark, "/nowhere", 0, batch) == {"a": {0: 10, 1: 1}, "b": {0: 4}}


@pytest.mark.rotated
def test_what_raises_is_null_without_internals(plain_spark: SparkSession) -> None:
    """Each expression over a good record, and over bad ones, as with Catalyst's trees."""
    values = [GOOD, BAD, WORST, {}]
    kinds = dict(part.strip().split(" ", 1) for part in SCHEMA.split(", "))
    records = plain_spark.createDataFrame(
        [(number, *(value.get(name) for name in kinds)) for number, value in enumerate(map(typed, values))],
        f"number int, {SCHEMA}",
    )
    actual, wanted = [], []
    for allowed, kept in ((False, actual), (True, wanted)):
        with internals(allowed=allowed):
            columns = [column_of(Expression(text)).alias(f"c{number}") for number, text in enumerate(RAISING)]
            rows_in_order = records.select("number", *columns).orderBy("number").collect()
            kept += [row.asDict(recursive=True) for row in rows_in_order]
    texts = dict(enumerate(RAISING))
    for item, other in zip(actual, wanted, strict=True):
        assert {t: item[f"c{n}"] for n, t in texts.items()} == {t: other[f"c{n}"] for n, t in texts.items()}
    assert [actual[0][f"c{number}"] for number in texts] == list(RAISING.values())


def typed(value: dict[str, Any]) -> dict[str, Any]:
    from datetime import UTC, date, datetime

    return value | ({"day": date(2020, 1, 1), "at": datetime(2020, 1, 1, tzinfo=UTC)} if value else {})


@pytest.mark.rotated
def test_a_text_that_spark_reads_as_a_moment_is_refused_without_internals(plain_spark: SparkSession) -> None:
    events = lh.stream("events", key="id string", schema="t string, ts array<string>, at timestamp, day date")

    def is_refused(text: str) -> bool:
        try:
            check_application(plain_spark, lh.app(events.filter(text).latest("a")))
        except PlanError as error:
            return "as a timestamp: '12:30' would be of the day" in str(error)
        return False

    hidden = ["nullif(t, at) IS NULL", "equal_null(t, at)", "decode(t, at, 1) = 1"]
    assert [text for text in (*IMPLICIT, *hidden) if not is_refused(text)] == []
    allowed = [*EXPLICIT, "at > day", "at > to_date(t)", "date_format(at, 'HH') = t"]
    assert [text for text in allowed if is_refused(text)] == []


def test_every_function_of_ours_has_a_form_in_python() -> None:
    own_functions = {record.name for record in RECORDS if record.own}
    assert ksql_functions.TYPES.keys() == own_functions == FUNCTIONS.keys()
    assert MODEL_FUNCTIONS.keys() >= own_functions


@pytest.mark.rotated
def test_a_python_function_of_a_guarded_call_of_another_without_internals(plain_spark: SparkSession) -> None:
    """Each guard is a lambda, in which Spark calls no function of Python: they are computed before it."""
    filler = "repeat(fill, cast(greatest(7 - ksql_length(t), 0) div ksql_length(fill) AS int) + 1)"
    columns = {
        f"concat(ksql_substring({filler}, 0, 7 - ksql_length(t)), t)": ["BarBfoo", None, None],
        "cast(10 / ksql_length(ksql_reverse(fill)) AS int) + ksql_length(t)": [6, None, None],
        "try_element_at(split(ksql_reverse(t), 'o'), ksql_length(fill))": ["f", None, None],
    }
    records = plain_spark.createDataFrame(
        [(0, "foo", "Bar"), (1, "foo", ""), (2, None, "x")], "n int, t string, fill string"
    )
    row_values = records.select("n", *(column_of(Expression(text)) for text in columns)).orderBy("n").collect()
    assert [[row[place] for row in row_values] for place in range(1, 4)] == list(columns.values())


def test_a_wrong_pattern_is_refused_without_internals(plain_spark: SparkSession) -> None:
    events = lh.stream("events", key="id string", schema="t string")
    with pytest.raises(PlanError, match="is not a pattern"):
        check_application(plain_spark, lh.app(events.filter("t RLIKE '['").latest("a")))


def test_an_expression_that_needs_internals_is_refused_and_named(plain_spark: SparkSession) -> None:
    with pytest.raises(PlanError, match=r"ILIKE ANY.*internals = false"):
        column_of(Expression("t ILIKE ANY ('a%')"))


def test_what_a_build_lacks_is_taken_the_plain_way_and_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability, "_missing", set())

    def call_absent_class() -> str:
        raise TypeError("'JavaPackage' object is not callable")

    with caplog.at_level(logging.WARNING, "lakehouse"):
        for _ in range(2):
            assert choose_way(Capability.DELTA_COMMIT, call_absent_class, lambda: "plain") == "plain"
    (line,) = [record.getMessage() for record in caplog.records]
    assert "Delta's transaction" in line
    assert Capability.DELTA_COMMIT.cost in line
    assert choose_way(Capability.DELTA_LOG, lambda: "private", lambda: "plain") == "private"


def test_an_error_of_the_work_itself_is_no_missing_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "_missing", set())

    def lose_a_race() -> str:
        raise ConcurrentTransactionException("another writer")

    with pytest.raises(ConcurrentTransactionException):
        choose_way(Capability.DELTA_COMMIT, lose_a_race, lambda: "plain")
    assert capability._missing == set()


@pytest.mark.rotated
def test_another_delta_is_asked_by_its_public_ways(
    spark: SparkSession, things: TablePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Internals are allowed, and this build lacks Delta's classes: Java's names lead to packages."""
    monkeypatch.setattr(capability, "_missing", set())

    def absent_log(session: Any, path: str) -> Any:
        return session._jvm.org.absent.DeltaLog.forTable(path)

    monkeypatch.setattr(delta_log, "delta_log_of", absent_log)
    open_epoch(spark, things)
    append(rows(spark, "a"), things, Progress(1, 1), CONTENT)
    append_empty_commit(spark, things, Progress(1, 2), CONTENT)
    assert read_progress(spark, things) == Progress(1, 2)
    assert capability._missing == {Capability.DELTA_LOG, Capability.DELTA_COMMIT}


@pytest.mark.rotated
def test_a_few_scenarios_without_internals(plain_spark: SparkSession, tmp_path: Path) -> None:
    check_on_spark(plain_spark, tmp_path, [read_scenario(FOLDER / f"{name}.json") for name in FEW], whole)


@pytest.mark.slow
def test_all_scenarios_without_internals(plain_spark: SparkSession, tmp_path: Path) -> None:
    check_on_spark(plain_spark, tmp_path, SCENARIOS, whole)
