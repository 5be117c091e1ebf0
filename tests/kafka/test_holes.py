"""Why offsets hold no record: asked of a real Kafka.

0  1  2       3  4  5      6  7  8
a  b  commit  c  d  abort  e  f  commit
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka import holes
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.holes import HoleCounts, Holes
from lakehouse.kafka.topics import Cluster


def filled(servers: str, topic: str) -> str:
    """Three transactions of two records in partition 1, the second of them aborted; partition 0 is empty."""
    Cluster(servers).create(topic, 2)
    writer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-test", "log_level": 0})
    writer.init_transactions()
    for number, pair in enumerate(("ab", "cd", "ef")):
        writer.begin_transaction()
        for letter in pair:
            writer.produce(topic, letter, partition=1)
        writer.flush()
        if number == 1:
            writer.abort_transaction()
        else:
            writer.commit_transaction()
    return topic


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    return filled(broker.bootstrap_servers, "holes")


@pytest.fixture
def asked(broker: Broker):
    with Holes(Cluster(broker.bootstrap_servers), {}) as asked:
        yield asked


def test_markers_and_aborted_records_are_kafkas_own(asked: Holes, topic: str) -> None:
    assert asked.explain(topic, 1, [(2, 6), (8, 9)]) == HoleCounts(aborted=2, own=3)
    assert asked.explain(topic, 1, []) == HoleCounts()


def test_a_record_that_kafka_has_and_bronze_lacks_is_a_loss(asked: Holes, topic: str) -> None:
    actual = asked.explain(topic, 1, [(1, 6), (7, 9)])
    assert actual == HoleCounts(aborted=2, own=3, there=2, first_there=1)


def test_offsets_after_the_end_are_beyond(asked: Holes, topic: str) -> None:
    assert asked.explain(topic, 1, [(8, 12), (20, 21)]) == HoleCounts(own=1, beyond=4)
    assert asked.explain(topic, 0, [(0, 3)]) == HoleCounts(beyond=3)


@pytest.mark.rotated
def test_many_holes_are_read_in_parts(asked: Holes, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asked.explain(topic, 1, [(0, 1), (2, 3), (4, 5), (8, 9)])
    monkeypatch.setattr(holes, "HOLES_AT_ONCE", 1)
    assert asked.explain(topic, 1, [(0, 1), (2, 3), (4, 5), (8, 9)]) == whole
    monkeypatch.setattr(holes, "FAR_OFFSETS", 1)
    assert asked.explain(topic, 1, [(0, 1), (2, 3), (4, 5), (8, 9)]) == whole
    assert whole == HoleCounts(aborted=1, own=2, there=1, first_there=0)


def test_a_missing_partition_or_broker_is_reported(asked: Holes, topic: str, broker: Broker) -> None:
    with pytest.raises(NotFound, match="no partition 7"):
        asked.explain(topic, 7, [(0, 1)])
    with Holes(Cluster("127.0.0.1:1", {}, 0.5), {}) as nobody, pytest.raises(KafkaUnavailable):
        nobody.explain(topic, 1, [(0, 1)])


def test_what_lies_before_the_first_offset_has_expired(asked: Holes, broker: Broker) -> None:
    topic = filled(broker.bootstrap_servers, "holes-expired")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 1, 4)]).values():
        future.result()
    actual = asked.explain(topic, 1, [(0, 7)])
    assert actual == HoleCounts(expired=4, aborted=1, own=1, there=1, first_there=6)
