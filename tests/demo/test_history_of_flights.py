"""The histories of weeks of flights, at 200 random moments, on real Kafka, Spark and Delta: plain Python's answer."""

from __future__ import annotations

import json
import uuid
from bisect import bisect_right
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from examples.year_of_flights import flights
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from tests.seeds import seeds

if TYPE_CHECKING:
    from lakehouse.kafka.embedded.broker import Broker

MOMENTS = 200
PARTS = 2
MONTH_MS = 31 * 24 * 60 * 60 * 1000


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_flights_at_random_moments(broker: Broker, lake: Any, seed: int) -> None:
    dice = Random(seed)
    whole_year = [record for record in flights.read_records("airborne") if record.key is not None]
    # A month and a half, from anywhere in the year: each late record of a carrier changes all later rows of it.
    begin_ms = whole_year[0].timestamp_ms + dice.randrange(10) * MONTH_MS
    records = [record for record in whole_year if begin_ms <= record.timestamp_ms < begin_ms + MONTH_MS * 3 // 2]
    # One of two parts comes late. Records of one plane and time stay together: of these the last one counts.
    parts: list[list[ProducerRecord]] = [[] for _ in range(PARTS)]
    for record in records:
        part = Random(f"{seed} {record.key!r} {record.timestamp_ms}").randrange(PARTS)
        parts[part].append(ProducerRecord(record.key, record.value, record.timestamp_ms))

    topic = f"airborne-{uuid.uuid4().hex[:8]}"
    stream = lh.stream(topic, key="tailnum string", schema="carrier string, flight int, dest string")
    airborne = stream.latest("airborne", order_by="rowtime")
    carriers = stream.group_by("carrier").agg(n=lh.count(), flights=lh.sum("flight")).table("carriers")
    app = lh.app(airborne.history(), carriers.history())
    Cluster(broker.bootstrap_servers).create(topic, partitions=4, config={"retention.ms": "-1"})
    one = lake("histories")
    for part_records in parts:
        produce(broker.bootstrap_servers, {}, topic, part_records)
        one.run(app, until="caught_up")

    planes: dict[str, list[tuple[int, tuple[str, int] | None]]] = defaultdict(list)
    totals: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.timestamp_ms):
        assert record.key is not None
        data = None if record.value is None else json.loads(record.value)
        row = None if data is None else (data["dest"], data["flight"])
        planes[record.key.decode()].append((record.timestamp_ms, row))
        if data is not None:
            _, n, total = totals[data["carrier"]][-1] if totals[data["carrier"]] else (0, 0, 0)
            totals[data["carrier"]].append((record.timestamp_ms, n + 1, total + data["flight"]))

    def newest(points: list[Any], ms: int) -> Any:
        index = bisect_right(points, ms, key=lambda point: point[0])
        return points[index - 1][1:] if index else None

    first_ms, last_ms = records[0].timestamp_ms, max(record.timestamp_ms for record in records)
    moments = sorted({dice.randrange(first_ms - 1_000_000, last_ms + 1_000_000) for _ in range(MOMENTS)})

    def held(columns: str, table: str) -> dict[int, dict[str, tuple[Any, ...]]]:
        """The rows of a history at each moment, by key."""
        times = ", ".join(f"({ms}, epoch_ms({ms}))" for ms in moments)
        rows = one.query(
            f"SELECT ms, {columns} FROM {table} JOIN (VALUES {times}) AS moments(ms, moment) ON "
            "valid_from AT TIME ZONE 'UTC' <= moment AND (valid_to AT TIME ZONE 'UTC' > moment OR valid_to IS NULL)"
        ).rows
        rows_by_moment: dict[int, dict[str, tuple[Any, ...]]] = {ms: {} for ms in moments}
        for ms, key, *values in rows:
            assert key not in rows_by_moment[ms], (key, ms)
            rows_by_moment[ms][key] = tuple(values)
        return rows_by_moment

    planes_held = held("tailnum, dest, flight", "airborne_history")
    sums_held = held("carrier, n, flights", "carriers_history")
    for ms in moments:
        expected = {key: newest(points, ms) for key, points in planes.items()}
        assert planes_held[ms] == {key: point[0] for key, point in expected.items() if point and point[0] is not None}
        sums = {key: newest(points, ms) for key, points in totals.items()}
        assert sums_held[ms] == {key: point for key, point in sums.items() if point}
