"""The histories of tables: at each event time they have the rows that the table itself has when it is read there."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.operator import VALID_TO
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.record import Record
from tests.properties.test_operators import BY_CITY, EVENTS, IN_PYTHON, IN_SQL, history
from tests.seeds import restarts, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CITIES = EVENTS.latest("cities_of_keys")
TABLES = (
    EVENTS.latest("newest"),
    EVENTS.latest("by_time", order_by="rowtime"),
    EVENTS.latest("by_number", order_by="cast(n AS bigint)"),
    EVENTS.explode("tags", "tag").merge(EVENTS.filter("n > 0").with_columns(tag="city")).rekey("tag").latest("tags"),
    EVENTS.retime("rowtime - n").latest("by_other_time", order_by="rowtime"),
    BY_CITY.agg(**{name: item for name, item in IN_SQL.items() if name not in ("mean", "most")}).table("in_sql"),
    EVENTS.group_by("n").agg(wide=lh.sum("cast(amount as decimal(38, 6))"), mean=lh.avg("amount")).table("wide"),
    BY_CITY.agg(**IN_SQL).table("of_doubles"),
    BY_CITY.agg(**IN_PYTHON).table("in_python"),
    EVENTS.join(CITIES, how="left", prefix="kept_")
    .group_by("n")
    .agg(k=lh.count(), last=lh.latest("kept_city"))
    .table("joined"),
)


# What of these tables is tracked: columns in which records of one key often say the same.
TRACKED = (
    (TABLES[0], ["city"]),
    (TABLES[1], ["city"]),
    (TABLES[2], ["city"]),
    (TABLES[3], ["city"]),
    (BY_CITY.agg(least=lh.min("n"), most=lh.max("n"), n=lh.count()).table("extremes"), ["least", "most"]),
    (
        BY_CITY.agg(first=lh.earliest("n"), total=lh.sum("cast(n % 2 AS bigint)"), n=lh.count()).table("parts"),
        ["total"],
    ),
    (BY_CITY.agg(kinds=lh.collect_set("n % 3"), n=lh.count()).table("of_sets"), ["kinds"]),
)


def rows_at(rows: dict[Key, dict[str, Any]], moment: datetime) -> dict[Key, dict[str, Any]]:
    """Return what a history says of a moment, as the rows of the table. Fails if two rows of a key hold there."""
    found: dict[Key, dict[str, Any]] = {}
    for (*key, valid_from), row in rows.items():
        if valid_from <= moment and (row[VALID_TO] is None or moment < row[VALID_TO]):
            assert tuple(key) not in found, (key, moment)
            found[tuple(key)] = {name: value for name, value in row.items() if name != VALID_TO}
    return found


def check_moments(
    table: Table, records: list[Record], rows: dict[Key, dict[str, Any]], track: list[str] | None = None
) -> None:
    """Compare a history's rows with the table, read by the model at each event time at which it may change.

    track: the columns that the history has; None for all.
    """
    times = {key[-1] for key in rows} | {row[VALID_TO] for row in rows.values() if row[VALID_TO] is not None}
    assert rows
    moments = {*times, *(to_datetime(record.timestamp + shift) for record in records for shift in (-7, -1, 0, 5))}
    for moment in sorted(moments):
        ms = int(moment.timestamp() * 1000)
        expected = model.run(lh.app(table), records, decode_record, ms).tables[table.name]
        if track is not None:
            expected = {key: {name: row[name] for name in track} for key, row in expected.items()}
        assert rows_at(rows, moment) == expected, (table.name, ms)


@pytest.mark.parametrize("seed", seeds(1, 2, 3))
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_history_has_the_rows_of_each_moment(table: Table, seed: int) -> None:
    records = history(seed, 60, 3)
    result = model.run(lh.app(table.history()), records, decode_record)
    check_moments(table, records, result.tables[f"{table.name}_history"])
    direct = model.run(lh.app(table), records, decode_record)
    assert result.null_keys[f"{table.name}_history"] == direct.null_keys[table.name]
    late = (result.late[f"{table.name}_history"], direct.late[table.name])
    assert sorted(late[0], key=str) == sorted(late[1], key=str)


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds())
def test_spark_keeps_the_history_of_the_model(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    dice, ticks = Random(seed), 4
    records = history(seed, 150, ticks)
    tracked = [table.history(f"tracked_{table.name}", track=track) for table, track in TRACKED]
    app = lh.app(*(table.history() for table in (*TABLES[5:], *dice.sample(TABLES[:5], 2))), *dice.sample(tracked, 4))
    expected = model.run(app, records, decode_record)
    result = SparkReplay(spark, tmp_path)(app, records, restarts(seed, ticks))
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        late = result.late[table.name], expected.late[table.name]
        assert sorted(late[0], key=str) == sorted(late[1], key=str), table.name
    assert result.null_keys == expected.null_keys


@pytest.mark.parametrize("seed", seeds(1, 2, 3))
@pytest.mark.parametrize(("table", "track"), TRACKED, ids=[table.name for table, _ in TRACKED])
def test_a_history_that_tracks_columns_has_a_row_for_each_change_of_them(
    table: Table, track: list[str], seed: int
) -> None:
    records = history(seed, 60, 3)
    name = f"{table.name}_history"
    rows = model.run(lh.app(table.history(track=track)), records, decode_record).tables[name]
    check_moments(table, records, rows, track)
    for (*key, _), row in rows.items():  # no row goes on in the next
        next_row = rows.get((*key, row[VALID_TO]))
        assert next_row is None or {**next_row, VALID_TO: None} != {**row, VALID_TO: None}, (table.name, key)
    assert len(rows) <= len(model.run(lh.app(table.history()), records, decode_record).tables[name])
