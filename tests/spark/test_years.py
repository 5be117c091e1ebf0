"""Times at the ends of the years 1 to 9999, and outside of them: nothing stops, and every reader can read the tables.

What does not fit is in the quarantine with its reason, and the good record after it arrives; the model agrees.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.lake.sql import open_duckdb, register_table, run_select
from lakehouse.model import model
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JUNE = 1_370_044_800_000
VISITS = lh.stream("visits", key="id string", schema="at bigint", event_time="at")
HOPPED = VISITS.group_by("id").window(lh.hopping("2 days", "1 day")).agg(n=lh.count()).table("hopped")
FINAL = VISITS.group_by("id").window(lh.tumbling("1 day")).agg(n=lh.count()).table("final", emit="final")
STAMPS = lh.stream("stamps", key="id string", schema="at timestamp, many array<struct<at: timestamp>>, day date")
KNOWN = lh.app(HOPPED, FINAL, STAMPS.latest("stamps_latest"))
# The model can't tell: an expression whose time does not exist is null, as any that fails.
FAR = STAMPS.select("at + make_interval(8000) AS later", "array(at, at + make_interval(8000)) AS both")
ADDED = "at + make_interval(8000)"
SPARK = lh.app(
    FAR.latest("far"),
    STAMPS.group_by(f"{ADDED} AS later").agg(n=lh.count()).table("far_keys"),
    STAMPS.group_by("id").agg(last=lh.latest(ADDED), all=lh.collect_list(ADDED), top=lh.max(ADDED)).table("far_values"),
)
APP = lh.app(*KNOWN.tables, *SPARK.tables)

TIMES = [
    FIRST_MS, FIRST_MS + 86_400_000, FIRST_MS + 1, JUNE, JUNE * 1_000, JUNE * 1_000_000, 2**63 - 1, -(2**63),
    LAST_MS + 1, FIRST_MS - 1, JUNE, LAST_MS - 86_400_000, LAST_MS - 1, LAST_MS, JUNE,
]  # fmt: skip
GOOD: list[dict[str, Any]] = [
    {"at": "0001-01-01T00:00:00Z", "day": "0001-01-01"}, {"at": "1500-02-28T12:00:00Z", "day": "1500-02-28"},
    {"at": "1850-01-01T00:00:00.000001Z"}, {"at": "2013-06-01T00:00:00Z", "many": [{"at": 1_370_044_800}]},
    {"at": "9999-12-31T23:59:59.999999Z", "day": "9999-12-31"},
]  # fmt: skip
BAD: list[dict[str, Any]] = [
    {"at": JUNE}, {"at": JUNE * 1_000}, {"at": JUNE * 1_000_000}, {"at": JUNE * 10_000_000_000}, {"at": "12:30"},
    {"at": "+12:30"}, {"at": "\u000112:30"}, {"many": [{"at": JUNE * 1_000_000}]},
    {"at": " T12:30:00"}, {"at": "+10000-01-01T00:00:00Z"}, {"at": "9999-12-31T23:59:59-01:00"},
    {"at": "0000-06-01T00:00:00Z"}, {"day": "+10000-01-01"}, {"day": "0000-01-01"}, {"many": [None, {"at": JUNE}]},
    {"many": [{"at": "12:30"}]},
]  # fmt: skip
# Microseconds that are read as seconds overflow: 2013-11-04 becomes a time in the year 2521.
BAD.append({"at": 1_383_523_200_000_000})


def year(time: datetime | None) -> int | None:
    return None if time is None else time.year


def history() -> list[Record]:
    """Good and bad records in one tick; the last one is good."""
    values = {"visits": [{"at": time} for time in TIMES], "stamps": [*GOOD[1:], *BAD, GOOD[0]]}
    made = []
    for topic, of in values.items():
        for number, value in enumerate(of):
            key, data = b"abc"[number % 3 :][:1], json.dumps(value).encode()
            made.append(Record(topic, f"id-{topic}", 0, number, JUNE, key, data, 1, JUNE))
    return made


@pytest.mark.slow
def test_a_time_outside_of_the_years_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake import reader
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.changelog import changefeed, published
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(tmp_path / "lake"))
    records = history()
    write_bronze(open_lake(spark, layout), APP, records)
    with Silver(open_lake(spark, layout), APP, lambda tick, count: None) as silver:
        silver.catch_up(1)

    def rows(layer: str, name: str) -> list[dict[str, Any]]:
        # deltalake and pyarrow fail here on times that INT96 can't hold, or that are no datetime in Python.
        return reader.open_dataset(reader.find_table_path(layout, layer, name)).to_table().to_pylist()

    expected = model.run(KNOWN, records, decode_record)
    for table in KNOWN.tables:
        assert rows_of(table, rows("silver", table.name)) == expected.tables[table.name], table.name
        late = len(rows("late", table.name)) if Path(layout.late(table.name)).exists() else 0
        assert late == len(expected.late[table.name]), table.name
    for source in KNOWN.sources:
        actual = sorted((row["offset"], row["reason"]) for row in rows("quarantine", source.name))
        assert actual == [(record.offset, reason) for record, reason in expected.quarantine[source.name]]
        assert len(actual) == (6 if source.name == "visits" else len(BAD))

    duck = open_duckdb(("silver",))
    register_table(duck, "silver", "stamps_latest", reader.open_dataset(layout.silver("stamps_latest")))
    actual = run_select(duck, 'SELECT epoch_ms("at") FROM stamps_latest ORDER BY 1').fetchall()
    assert actual[0][0] == FIRST_MS

    # An expression whose time does not exist is null: as a value, as a key, in an aggregate, and published.
    assert {row["id"]: year(row["later"]) for row in rows("silver", "far")} == {"a": 8001, "b": 9850, "c": None}
    assert {year(row["later"]): row["n"] for row in rows("silver", "far_keys")} == {8001: 1, 9500: 1, 9850: 1}
    values = {row["id"]: row for row in rows("silver", "far_values")}
    assert [year(time) for time in values["a"]["all"]] == [9500, None, 8001]
    assert [year(values[key][name]) for key in "ac" for name in ("last", "top")] == [8001, 9500, None, None]
    changes = list(published.rows_of_frame(changefeed.per_event(open_lake(spark, layout).open(APP.table("far")), 0, 1)))
    assert [row["both"] is None for row in changes] == [False, False, True, True, False]
