"""Where keys go: Java's murmur2, the partition of a window's key, and a custom partitioner."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.partitioner import choose_partition, murmur2_hash

if TYPE_CHECKING:
    from lakehouse.kafka.topics import Cluster

T = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)


# The cases of Kafka's own UtilsTest.testMurmur2, which has signed numbers.
@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(text: str, signed: int) -> None:
    assert murmur2_hash(text.encode()) == signed % 2**32


def test_a_number_is_taken_modulo_the_partitions() -> None:
    assert [choose_partition(number, 3) for number in (0, 4, -1)] == [0, 1, 2]


@pytest.mark.rotated
def test_windows_stay_with_their_key_and_a_partitioner_decides(lake: Any, cluster: Cluster, send: Any) -> None:
    cluster.create("placed", 3)
    stream = lh.stream("placed", key="id string", schema="n bigint")
    counts = stream.group_by("id").window(lh.tumbling("1 second")).agg(n=lh.count()).table("placed_counts")
    app = lh.app(counts.changes().to_topic("placed-counts"), stream.to_topic("by-number", partition_by="n"))
    ids = [f"id-{number}" for number in range(6)]
    send("placed", [(key, f'{{"n": {n}}}', T + 1000 * n) for n in range(2) for key in ids])
    lake().run(app, until="caught_up")

    source = {m.key(): m.partition() for m in read_topic(cluster, {}, "placed")}
    actual = list(read_topic(cluster, {}, "placed-counts"))
    assert len(actual) == 12
    for message in actual:
        key = next(key for key in source if b'"' + key + b'"' in message.key())
        assert message.partition() == source[key], "a changelog's windows lie where their key's records lie"
    assert {m.partition() for m in read_topic(cluster, {}, "by-number") if b'"n":1' in m.value()} == {1}
