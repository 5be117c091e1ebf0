"""What is made of the rows of a restored table, and was not restored itself, begins with the rows that are there."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.lake.layout import Layout
from lakehouse.lake.properties import RESTORED, SKIP
from lakehouse.model import model
from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.run.lake import Lake
from lakehouse.run.repair.newest_records import rows_as_frame
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.run.start.resume_point import Restored
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog import changefeed, published
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.table import tables

from ..bench import Bench
from ..rows import ALL, REFERRING, A, records_of
from .test_rows import history

APP = lh.app(ALL, REFERRING)


def restored(bench: Bench, before: list[Record]) -> None:
    """Table a_ as these records left it, restored in a lake that has none of them yet."""
    result = model.run(APP, before, decode_record)
    last = {change.key: change for change in result.changelogs[A.name]}
    rows, covered = [], dict[str, int]()
    for key, row in result.tables[A.name].items():
        change = last[key]
        place = change.position._replace(tick=change.position.tick - 1)
        rows.append((*key, *(row[name] for name in ("g", "n", "to")), to_datetime(change.timestamp), tuple(place)))
    for record in before:
        if record.topic == "a":
            covered[str(record.partition)] = record.offset + 1
    frame = bench.spark.createDataFrame(rows, tables.visible_schema(bench.spark, A))
    skip = {SKIP: json.dumps({"replay-a": covered}), RESTORED: Restored("t", (("lake", 1),)).text()}
    tables.create_filled(frame, bench.lake.open(A), bench.lake.open(A).visible, skip)


def test_rows_from_a_changelog_keep_the_order_of_their_maps(spark: SparkSession, tmp_path: Path) -> None:
    """A group keeps its rows' values in a map, the last one at its end: LATEST went wrong after a restore."""
    spelled = "z", "7", "a", "m", "10", "b", "1", "k"
    values = {name: number for number, name in enumerate(spelled)}
    schema = StructType.fromDDL(
        "k string, m map<string, bigint>, s struct<n: int, m: map<string, string>>, at timestamp, "
        f"d decimal(38, 2), bytes binary, _position {POSITION_TYPE}"
    )
    place = (1, 2, "t", 0, 3, (0, 1))
    nested = {"n": 1, "m": dict.fromkeys(spelled, "x")}
    rows = [
        ("one", values, nested, to_datetime(-1), Decimal("1.25"), b"\xff", place),
        ("two", None, None, None, None, None, place),
    ]
    with rows_as_frame(open_lake(spark, Layout(str(tmp_path))), schema, [(1, row) for row in rows]) as frame:
        actual = sorted(frame.toArrow().to_pylist(), key=lambda row: str(row["k"]))
    assert actual[0]["m"] == list(values.items())
    assert actual[0]["s"] == {"n": 1, "m": [(name, "x") for name in spelled]}
    assert (actual[0]["at"], actual[0]["d"], actual[0]["bytes"]) == (to_datetime(-1), Decimal("1.25"), b"\xff")
    assert list(actual[0]["_position"].values()) == [*place[:5], [0, 1]]
    assert [actual[1][name] for name in ("m", "s", "at", "d", "bytes")] == [None] * 5


def filled(rows: dict[Any, Any]) -> dict[Any, Any]:
    return {key: row for key, row in rows.items() if row.get("rows") != 0}


@pytest.mark.slow
def test_sums_and_joins_begin_with_restored_rows(spark: SparkSession, tmp_path: Path) -> None:
    sent, bench = records_of(history(17, 40), [35, 5]), Bench(spark, tmp_path)
    restored(bench, [record for record in sent if record.tick == 1])
    last = write_bronze(bench.lake, APP, sent)
    bench.catch_up(APP, 1, last)
    expected = model.run(APP, sent, decode_record)
    for table in (A, REFERRING, ALL):
        assert filled(bench.rows(table)) == filled(dict(expected.tables[table.name])), table.name
    for table in (ALL, REFERRING):
        assert bench.rows(table) == bench.rebuilt(table, last), table.name
        rows: dict[Any, Any] = {}
        for change in published.rows_of_frame(changefeed.per_event(bench.lake.open(table), 0, last)):
            rows[change[table.key[0]]] = None if change["_tombstone"] else change
        assert {key for key, row in rows.items() if row} == {key for (key,) in bench.rows(table)}, table.name
    assert Lake(bench.layout.root).audit(APP, ALL).problems == []
