"""Any batching of the same bronze, and any restart in between, gives the same tables and the same changelogs.

The oracle is the model, which knows no batches. One example is a whole history of many keys, so that one Spark job
checks as much as hundreds of small histories would.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode
from lakehouse.model import model
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# An example costs Spark jobs: a failing one is shown as it is, without an hour of shrinking.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
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

# Few keys and cities, so that records meet; values beyond a float's exact range, so that order shows.
values = st.one_of(
    st.none(),
    st.just(b"null"),
    st.just(b"{}"),
    st.just(b'{"n": "bad"}'),
    st.fixed_dictionaries(
        {},
        optional={
            "city": st.sampled_from(["Paris", "Rome", "Lima", None]),
            "n": st.one_of(st.none(), st.integers(-5, 5), st.just(2**31 - 1)),
            "amount": st.one_of(st.none(), st.decimals(-99, 99, places=2)),
            "x": st.one_of(st.none(), st.sampled_from([0.1, 0.2, 1e16, -1e16, 3.3])),
        },
    ).map(lambda row: json.dumps(row, default=lambda d: float(d) if isinstance(d, Decimal) else d).encode()),
)
keys = st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"\xff"]))
events = st.tuples(st.integers(0, 2), keys, values, st.integers(0, 50))


def history(parts: list[tuple[int, bytes | None, bytes | None, int]], cuts: list[int], lag: int) -> list[Record]:
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


# The first that hypothesis tries is 150 times the same event: a whole Spark job for next to nothing.
varied = st.lists(events, min_size=150, max_size=150).filter(lambda parts: len(set(parts)) > 20)


@settings(max_examples=1, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(
    parts=varied,
    restarts=st.lists(st.integers(1, 5), max_size=2, unique=True).map(sorted),
    cuts=st.lists(st.integers(1, 149), min_size=5, max_size=5, unique=True).map(sorted),
    lag=st.integers(0, 1),
)
def test_any_batching_and_any_restart(
    spark: SparkSession, tmp_path_factory: Any, parts: list[Any], restarts: list[int], cuts: list[int], lag: int
) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    records = history(parts, cuts, lag)
    expected = model.run(APP, records, decode)
    replay = SparkReplay(spark, Path(tmp_path_factory.mktemp("batching")))
    last = max(record.tick for record in records)
    result = replay(APP, records, [tick for tick in restarts if tick < last])
    assert result.tables == expected.tables
    assert result.changelogs == expected.changelogs
    assert result.null_keys == expected.null_keys
    found, wanted = result.quarantine["events"], expected.quarantine["events"]
    assert [record.identity for record, _ in found] == [record.identity for record, _ in wanted]
