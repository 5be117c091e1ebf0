"""Any batching of the same bronze, and any restart in between, gives the same tables and the same changelogs.

The oracle is the model, which knows no batches. One example is a whole history of many keys, so that one Spark job
checks as much as hundreds of small histories would.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from tests.seeds import restarts, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Event = tuple[int, bytes | None, bytes | None, int]  # partition, key, value, timestamp
SCHEMA = "city string, n int, amount decimal(6, 2), x double"
EVENTS = lh.stream("events", key="id string", schema=SCHEMA)
LATEST = EVENTS.latest("latest")
TOTALS = (
    EVENTS.filter("n IS NULL OR n <> 3")
    .group_by("city")
    .agg(
        rows=lh.count(), cities=lh.count("city"), numbers=lh.count("n"),
        n=lh.sum("n"), amount=lh.sum("amount"), x=lh.sum("x"),
    )
    .table("totals")
)  # fmt: skip
REKEYED = EVENTS.select("city", "n").rekey("city").latest("rekeyed")
APP = lh.app(LATEST, TOTALS, REKEYED)


def some_value(dice: Random) -> bytes | None:
    """A record's value: some are null or do not fit; doubles beyond a float's exact range, so that order shows."""
    if (kind := dice.random()) < 0.2:
        return dice.choice([None, b"null", b"{}", b'{"n": "bad"}'])
    row: dict[str, Any] = {
        "city": dice.choice(["Paris", "Rome", "Lima", None]),
        "n": dice.choice([None, *range(-5, 6), 2**31 - 1]),
        "amount": dice.choice([None, dice.randint(-9900, 9900) / 100]),
        "x": dice.choice([None, 0.1, 0.2, 1e16, -1e16, 3.3]),
    }
    return json.dumps({name: item for name, item in row.items() if dice.random() < kind}).encode()


def some_events(dice: Random, count: int) -> list[Event]:
    """Events of few keys and cities, so that records meet, in three partitions."""
    keys = [None, b"a", b"b", b"c", b"\xff"]
    return [(dice.randint(0, 2), dice.choice(keys), some_value(dice), dice.randint(0, 50)) for _ in range(count)]


def history(parts: list[Event], cuts: list[int], lag: int) -> list[Record]:
    """Records as bronze holds them: a new tick begins at each cut, and partition 2 is read `lag` ticks later."""
    timestamps: dict[int, list[int]] = {}
    made: list[Record] = []
    for number, (partition, key, value, timestamp) in enumerate(parts):
        seen = timestamps.setdefault(partition, [])
        seen.append(timestamp)
        place = ("events", "id", partition, len(seen) - 1)
        tick = bisect_right(cuts, number) + (lag if partition == 2 else 0)
        made.append(Record(*place, timestamp, key, value, tick, order_times(seen)[-1]))
    numbers = {tick: number for number, tick in enumerate(sorted({record.tick for record in made}), 1)}
    return [replace(record, tick=numbers[record.tick]) for record in made]


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_any_batching_and_any_restart(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    dice = Random(seed)
    records = history(some_events(dice, 150), sorted(dice.sample(range(1, 150), 5)), dice.randint(0, 1))
    expected = model.run(APP, records, decode_record)
    last = max(record.tick for record in records)
    result = SparkReplay(spark, tmp_path)(APP, records, restarts(seed, last))
    assert result.tables == expected.tables
    assert result.changelogs == expected.changelogs
    assert result.null_keys == expected.null_keys
    quarantined = [[record.identity for record, _ in of.quarantine["events"]] for of in (result, expected)]
    assert quarantined[0] == quarantined[1]
