"""The version given for a moment is the table at that moment: Spark's tables against the model, read without Spark.

tick        1         2         3         4             5
times       100..     200..     300..     400.., 250    500..
batches     |---------|-------------------|-----------------------|
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import rows_at
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.rows_at import snapshot
from lakehouse.lake.row import blame, difference
from lakehouse.model import model
from lakehouse.plan.table import Table
from lakehouse.run.lake import Lake
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.named_moment import moment_from_text
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = lh.stream("events", key="id string", schema="n bigint")
APP = lh.app(
    EVENTS.latest("newest"),
    EVENTS.group_by("id")
    .window(lh.tumbling("100 milliseconds", grace="0 seconds"))
    .agg(n=lh.count(), total=lh.sum("n"))
    .table("final", emit="final"),
)
BATCHES = [1, 3, 5]


def records() -> list[Record]:
    times = [100 * tick + 10 * n for tick in range(1, 6) for n in range(6)]
    times[3 * 6 + 5] = 250  # arrived in tick 4
    orders = order_times(times)
    return [
        Record(
            "events", "id", 0, n, time, f"k{n % 5}".encode(), None if n == 17 else f'{{"n": {n}}}'.encode(),
            n // 6 + 1, orders[n],
        )
        for n, time in enumerate(times)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def layout(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(tmp_path_factory.mktemp("past")))
    write_bronze(open_lake(spark, layout), APP, records())
    with Silver(open_lake(spark, layout), APP, lambda tick, count: None) as silver:
        for tick in BATCHES:
            silver.catch_up(tick)
    return layout


def rows(layout: Layout, table: Table, at: At, fold: rows_at.FoldRows | None = None) -> dict[tuple[Any, ...], Any]:
    result = rows_at.snapshot(layout, table.name, at, fold).rows
    table_rows = (result.to_table() if hasattr(result, "to_table") else result).to_pylist()
    shown = [{n: v for n, v in row.items() if not n.startswith("_")} for row in table_rows]
    return {tuple(row[n] for n in table.key): {n: v for n, v in row.items() if n not in table.key} for row in shown}


def at_tick(tick: int) -> model.Result:
    return model.run(APP, [record for record in records() if record.tick <= tick], decode_record)


def test_ticks(layout: Layout) -> None:
    for tick in range(1, 6):
        expected = at_tick(tick)
        for table in APP.tables:
            version = History(layout, table.name).at(AtTick(tick))
            assert (version is None) == (tick not in BATCHES), (table.name, tick)
            if version is not None:
                assert rows(layout, table, AtTick(tick)) == expected.tables[table.name], (table.name, tick)


def test_offsets(layout: Layout) -> None:
    for tick in BATCHES:
        offsets = AtOffsets({"events": {0: 6 * tick}})
        for table in APP.tables:
            assert rows(layout, table, offsets) == at_tick(tick).tables[table.name], (table.name, tick)
    assert History(layout, "newest").at(AtOffsets({"events": {0: 7}})) is None


def test_event_times(layout: Layout) -> None:
    """Every version given is right, and there is one for each time at which no record is out of order."""
    for ms in [99, *(time for tick in range(1, 6) for time in (100 * tick, 100 * tick + 60)), 250, 449]:
        expected = model.run(APP, records(), decode_record, ms)
        for table in APP.tables:
            given = History(layout, table.name).at(AtEvent(ms))
            assert (given is not None) == (ms in (99, 160, 560)), (table.name, ms)
            if given is not None:
                assert rows(layout, table, AtEvent(ms)) == expected.tables[table.name], (table.name, ms)


@pytest.mark.parametrize("moment", ["tick:2", "1970-01-01T00:00:00.3Z"])
def test_between_versions_spark_folds(spark: SparkSession, layout: Layout, moment: str) -> None:
    from lakehouse.settings.config import load

    lake = Lake(settings=load(environ={"LAKEHOUSE_LAKE_PATH": layout.root}))
    at, table = moment_from_text(moment), APP.table("newest")
    assert at is not None
    actual = rows(layout, table, at, lambda name, when: lake.read(APP.table(name), at=when, hidden=True).toArrow())
    expected = at_tick(2) if isinstance(at, AtTick) else model.run(APP, records(), decode_record, 300)
    assert actual == expected.tables["newest"]


def test_a_commit_time_is_the_same_version_for_spark_wherever_the_files_were_copied(
    spark: SparkSession, layout: Layout, tmp_path: Path
) -> None:
    from lakehouse.spark.history import reading

    shutil.copytree(layout.root, tmp_path / "copy")
    for copied in (layout, Layout(str(tmp_path / "copy"))):
        table = APP.table("newest")
        for version in History(copied, table.name):
            for ms in (version.time_ms, version.time_ms - (version.version > 0)):
                at = AtCommit(ms)
                assert reading.meant_version(open_lake(spark, copied).open(table), at) == History(
                    copied, table.name
                ).at(at)


def test_what_differs_between_two_ticks(layout: Layout) -> None:
    before, after = at_tick(1).tables["newest"], at_tick(3).tables["newest"]
    actual = difference.difference(*(snapshot(layout, "newest", AtTick(tick)) for tick in (1, 3)))
    changes = {tuple(c["key"].values()): (c["before"], c["after"]) for c in actual.changes}
    keys = sorted({*before, *after})
    assert changes == {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
    assert actual.versions == (History(layout, "newest").at(AtTick(1)), History(layout, "newest").at(AtTick(3)))


def test_what_each_version_changed_leads_from_the_first_to_the_last(layout: Layout) -> None:
    for table in APP.tables:
        made: dict[tuple[Any, ...], Any] = {}
        for version in range(History(layout, table.name).newest + 1):
            for change in difference.changes_of_version(layout, table.name, version).changes:
                key = tuple(change["key"].values())
                assert made.pop(key, None) == change["before"]
                made |= {} if change["after"] is None else {key: change["after"]}
        assert made == at_tick(5).tables[table.name]


def test_the_record_that_set_a_row(layout: Layout) -> None:
    for key in ("k0", "k1", "k3", "k4"):
        (row,) = blame.blame(snapshot(layout, "newest", None), key)
        assert json.loads(row["record"]["value"]) == row["value"]
        assert row["record"]["key"].decode() == key


def test_a_missing_file_is_noticed(layout: Layout) -> None:
    history = History(layout, "newest")
    assert history.oldest_readable() == 0
    file = Path(history.path, reader.list_file_paths(reader.open_table(history.path, history.label, 2))[0])
    file.rename(file.with_suffix(".gone"))
    assert not history.is_readable(2)
    file.with_suffix(".gone").rename(file)


@pytest.mark.slow
def test_bronze_gives_what_a_vacuum_took(spark: SparkSession, tmp_path: Path, layout: Layout) -> None:
    """A version whose files are gone is in the log still: the rows of its tick are folded from bronze."""
    from deltalake import DeltaTable

    from lakehouse.spark.history import reading

    there = Layout(str(shutil.copytree(layout.root, tmp_path / "lake")))
    lake = open_lake(spark, there)
    moments = [AtTick(1), AtTick(2), AtTick(3), AtEvent(250), AtOffsets({"events": {0: 9}})]

    def rows(table: Table, at: At) -> list[Any]:
        shown = [name for name in reading.read_rows(lake.open(table), at).columns if not name.startswith("_")]
        return sorted(map(tuple, reading.read_rows(lake.open(table), at).select(*shown).collect()), key=str)

    before = {table.name: [rows(table, at) for at in moments] for table in APP.tables}
    gone = 0
    for table in APP.tables:
        for path in (there.silver(table.name), there.state(table.name)):
            if Path(path).exists():
                kept = {Path(path, file) for file in DeltaTable(path).file_uris()}
                old = [file for file in Path(path).glob("*.parquet") if file not in kept]
                gone += len(old)
                for file in old:
                    file.unlink()
    assert gone
    for table in APP.tables:
        for at, expected in zip(moments, before[table.name], strict=True):
            assert rows(table, at) == expected, f"{table.name} at {at}"
