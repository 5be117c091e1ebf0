"""Every operator on Spark equals the model: any batching, any restart, several partitions, late and equal timestamps.

Ingest's batches vary too: ticks of any size, and partitions that are read later than others.

One example is a whole history of several keys, and its tables are all operators at once, so that a few Spark jobs check
as much as hundreds of small histories would.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from tests.seeds import restarts, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "city string, n int, amount decimal(6, 2), x double, tags array<string>"
EVENTS = lh.stream("events", key="id string", schema=SCHEMA)
BY_CITY = EVENTS.group_by("city")
IN_SQL = {
    "n": lh.count(), "total": lh.sum("amount"), "mean": lh.avg("x"), "least": lh.min("n"), "most": lh.max("x"),
    "newest": lh.latest("n"), "oldest": lh.earliest("n", ignore_nulls=False), "mean_amount": lh.avg("amount"),
}  # fmt: skip
IN_PYTHON = {
    "all": lh.collect_list("n"), "different": lh.collect_set("x"), "top": lh.top_k("n", 2), "spread": lh.stddev("x"),
    "names": lh.histogram("id"), "distinct": lh.count_distinct("n"), "newest": lh.latest("n", ignore_nulls=False),
    "largest": lh.reduce("n", lambda a, b: a if a > b else b), "mean": lh.avg("amount"),
}  # fmt: skip
TABLES = {
    "tumbling": BY_CITY.window(lh.tumbling("10 milliseconds", grace="7 milliseconds")).agg(**IN_SQL),
    "hopping": BY_CITY.window(lh.hopping("9 milliseconds", "3 milliseconds", grace="0 seconds")).agg(**IN_PYTHON),
    "session": BY_CITY.window(lh.session("3 milliseconds", grace="9 milliseconds")).agg(**IN_SQL, **{
        name: item for name, item in IN_PYTHON.items() if name not in IN_SQL
    }),
    "sliding": BY_CITY.window(lh.sliding("4 milliseconds", grace="8 milliseconds")).agg(all=lh.collect_list("n")),
    "plain": BY_CITY.agg(**IN_PYTHON),
}  # fmt: skip
APP = lh.app(*[aggregated.table(name) for name, aggregated in TABLES.items()])
STATEFUL = lh.app(
    BY_CITY.window(lh.hopping("8 milliseconds", "4 milliseconds")).agg(**IN_SQL).table("final", emit="final"),
    BY_CITY.window(lh.session("2 milliseconds", grace="3 milliseconds"))
    .agg(n=lh.count())
    .having("n > 1")
    .table("busy", emit="final", idle="15 milliseconds", retention="20 milliseconds"),
    BY_CITY.window(lh.tumbling("5 milliseconds", grace="5 milliseconds"))
    .agg(n=lh.count("n"))
    .table("kept", retention="8 milliseconds", suppress=True),
    BY_CITY.agg(n=lh.sum("n")).having("n > 3").table("having", suppress=True),
    EVENTS.latest("by_time", order_by="rowtime", suppress=True),
    EVENTS.latest("by_number", order_by="cast(n AS bigint)"),
    EVENTS.latest("by_number_or_deleted", order_by="cast(n AS bigint)", tombstones="newest"),
    EVENTS.latest("forgetful", order_by="rowtime", retention="10 milliseconds"),
    EVENTS.explode("tags", "tag").merge(EVENTS.filter("n > 0").with_columns(tag="city")).rekey("tag").latest("tags"),
    EVENTS.retime("rowtime - n").latest("by_other_time", order_by="rowtime"),
    EVENTS.latest("by_event_time", order_by="rowtime").history(),
    BY_CITY.agg(n=lh.count(), ids=lh.collect_list("id")).table("per_city").history(),
    EVENTS.explode("tags", "tag").group_by("tag").agg(n=lh.count(), ids=lh.collect_list("id")).table("tagged"),
)

TEXTS = ["Paris", "Rome", "Lima", None]


def history(seed: int, size: int, ticks: int) -> list[Record]:
    """A history of `size` records in `ticks` ticks: several partitions and keys, nulls, bad and late records.

    A seed that leaves a tick without a record gives the next one's history.
    """
    random = Random(seed)
    timestamps: dict[int, list[int]] = {}
    made: list[Record] = []
    ends = sorted(random.sample(range(1, size), ticks - 1))
    lags = [0, random.randrange(2), random.randrange(2)]
    for number in range(size):
        seen = timestamps.setdefault(partition := random.randrange(3), [])
        # Time mostly goes on: a record's time is near its number, so some records are out of order, and some too late.
        shift = random.randint(-4, 4) if random.random() < 0.8 else random.randint(-30, 8)
        seen.append(max(number // 2 + shift, 0))
        key = random.choice([None, b"a", b"b", b"c"])
        place = ("events", "id", partition, len(seen) - 1)
        tick = min(bisect_right(ends, number) + 1 + lags[partition], ticks)
        made.append(Record(*place, seen[-1], key, value(random), tick, order_times(seen)[-1]))
    return made if len({record.tick for record in made}) == ticks else history(seed + 1, size, ticks)


def value(random: Random) -> bytes | None:
    """A record's value: now and then a null, or one that does not fit the schema."""
    if (kind := random.random()) < 0.15:
        return None if kind < 0.1 else b'{"n": "bad"}'
    row: dict[str, Any] = {
        "city": random.choice(TEXTS),
        "n": random.choice([None, *range(-5, 6)]),
        "amount": random.choice([None, random.randint(-99, 99)]),
        "x": random.choice([None, 0.1, 0.2, 1e16, -1e16, 3.3]),
        "tags": random.choice([None, [], random.choices(TEXTS, k=3)]),
    }
    return json.dumps({name: item for name, item in row.items() if random.random() < 0.9}).encode()


def check(spark: SparkSession, folder: Path, app: App, records: list[Record], seed: int) -> None:
    """Compare Spark, whose writers are replaced at the ticks that the seed gives, with the model."""
    from lakehouse.run.scenario.replay import SparkReplay

    expected = model.run(app, records, decode_record)
    result = SparkReplay(spark, folder)(app, records, restarts(seed, max(record.tick for record in records)))
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        assert result.changelogs[table.name] == expected.changelogs[table.name], table.name
        late = result.late[table.name], expected.late[table.name]
        assert sorted(late[0], key=str) == sorted(late[1], key=str), table.name
    assert result.null_keys == expected.null_keys


@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_windows_and_aggregates(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, APP, history(seed, 120, 4), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, on_spark=True))
def test_every_operator_often(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path / "windows", APP, history(seed, 300, 6), seed)
    check(spark, tmp_path / "stateful", STATEFUL, history(seed, 300, 3), seed)
