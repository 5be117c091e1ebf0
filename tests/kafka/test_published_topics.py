"""A publisher and its topics: it stops when one of them is no longer the topic that it began to write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from lakehouse.errors import StorageError
from lakehouse.kafka import publish
from lakehouse.kafka.covers import Cover
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.publish import Publisher
from lakehouse.kafka.topics import Cluster

pytestmark = pytest.mark.slow
RECORD = ProducerRecord(b"k", b"v", 1_700_000_000_000)


def add_partitions(broker: Broker, cluster: Cluster, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result()
    cluster.offsets((topic, partition) for partition in range(count))  # returns when they can be used


def begin(cluster: Cluster, topic: str) -> Publisher:
    for name in (topic, f"{topic}-covers"):
        cluster.create(name)
    return Publisher(cluster, {}, topic, lambda progress: None)


def cover_of(publisher: Publisher, of: str) -> Cover:
    return Cover(publisher.topic_id, of, "lake", 1, {})


def test_a_topic_that_is_made_anew_ends_its_publisher(
    cluster: Cluster, records: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on under covers of the earlier topic: at the next start all was published again."""
    monkeypatch.setattr(publish, "SETTLING_SECONDS", 0.5)
    for deleted in ("pt-anew", "pt-anew-covers"):
        publisher = begin(cluster, "pt-anew")
        assert publisher.publish([RECORD], cover_of(publisher, "")) == 1
        cluster.delete(deleted)
        with pytest.raises(StorageError, match=f"topic '{deleted}' was deleted, while a job published"):
            publisher.publish([RECORD], cover_of(publisher, ""))
        cluster.create(deleted)
        with pytest.raises(
            StorageError, match=rf"topic '{deleted}' was deleted and made anew \(its id was .*Start the"
        ):
            publisher.publish([RECORD], cover_of(publisher, ""))
        assert records(deleted) == []
        for name in ("pt-anew", "pt-anew-covers"):
            cluster.delete(name)


def test_a_changelog_that_is_given_more_partitions_ends_its_publisher(
    cluster: Cluster, broker: Broker, records: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "SETTLING_SECONDS", 0.5)
    publisher = begin(cluster, "pt-wider")
    assert publisher.publish([RECORD], cover_of(publisher, "table")) == 1
    add_partitions(broker, cluster, "pt-wider", 4)
    with pytest.raises(StorageError, match=r"topic 'pt-wider' was given 4 partitions \(it had 1\)"):
        publisher.publish([RECORD], cover_of(publisher, "table"))
    assert len(records("pt-wider")) == 1
    assert publisher.publish([RECORD], cover_of(publisher, "")) == 1  # a stream has no rows to restore
    assert publisher.partitions("pt-wider") == 4
