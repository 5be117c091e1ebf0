"""What a restore needs of topics: visible records, one partition a key, all rows, and what came after the changelog."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

import lakehouse as lh
from lakehouse.errors import ConfigError, DataLoss, KafkaUnavailable, NotFound, StorageError
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.headers import FORMAT
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.lost_records import read_gaps
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.run.lake import Lake
from lakehouse.run.repair import restore

pytestmark = pytest.mark.slow
T = 1_700_000_000_000


def rows(lake: Lake, table: lh.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.read(table).collect())


def counted(topic: str, name: str) -> lh.Table:
    stream = lh.stream(topic, key="k string", schema="word string", format="kafka")
    return stream.group_by("k").agg(n=lh.count(), last=lh.latest("word")).table(name)


class Admin:
    """What an operator does to topics."""

    def __init__(self, broker: Broker, cluster: Cluster) -> None:
        self._admin, self._cluster = AdminClient({"bootstrap.servers": broker.bootstrap_servers}), cluster

    def remove(self, topic: str, before: int) -> None:
        for future in self._admin.delete_records([TopicPartition(topic, 0, before)]).values():
            future.result()

    def set_policy(self, topic: str, policy: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result()

    def add_partitions(self, topic: str, count: int) -> None:
        for future in self._admin.create_partitions([NewPartitions(topic, count)]).values():
            future.result()
        self._cluster.offsets((topic, partition) for partition in range(count))  # returns when they can be used


@pytest.fixture
def admin(broker: Broker, cluster: Cluster) -> Admin:
    return Admin(broker, cluster)


@contextmanager
def open_record(broker: Broker, message: Any, key: bytes) -> Iterator[Producer]:
    """A copy of a record with another key, in a transaction that is open as long as the block lasts."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "marked late", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(message.topic(), message.value(), key, headers=message.headers(), timestamp=T)
    producer.flush()
    try:
        yield producer
    finally:
        producer.commit_transaction(30)


def test_a_changelog_is_restored_whole_or_not_at_all(
    lake, cluster, send, broker: Broker, records: Callable[[str], list[Any]], admin: Admin, monkeypatch
) -> None:
    cluster.create("rt-in")
    table = counted("rt-in", "rt_counts")
    app, one = lh.app(table.changes().to_topic("rt-out", partitions=1)), lake("a")
    send("rt-in", [(f"k{n}", "old", T + n) for n in range(20)])
    one.run(app, until="caught_up")

    # Kafka may mark a transaction in the topic of covers first: the last rows would be missing.
    with open_record(broker, records("rt-out")[0], b"late") as producer, monkeypatch.context() as patched:
        patched.setattr(restore, "TIMEOUT_SECONDS", 1.0)
        with pytest.raises(KafkaUnavailable, match=r"record rt-out/0@\d+ is covered, and after 1 s its transaction is"):
            lake("early").restore(table, "rt-out")
        patched.undo()
        threading.Timer(2, producer.commit_transaction, [30]).start()
        assert lake("waited").restore(table, "rt-out") == 21
        producer.begin_transaction()
    cluster.delete("rt-out")
    one.run(app, until="caught_up")
    assert lake("b").restore(table, "rt-out") == 20

    # With more partitions a key's later changes are in another one: a restore took whichever it had read last.
    admin.add_partitions("rt-out", 8)
    wider = "topic 'rt-out' has 8 partitions, and its changelog was published to 1: later changes of a key may be in"
    send("rt-in", [(f"k{n}", "new", T + 100 + n) for n in range(20)])
    with pytest.raises(StorageError, match=rf"{wider}.*Nothing was published\. Delete 'rt-out', and it is"):
        one.run(app, until="caught_up")
    with pytest.raises(NotFound, match=rf"{wider}.*Build the table from bronze; or delete the topic"):
        lake("c").restore(table, "rt-out")
    refusals = {proof.origin: proof.refused or "" for proof in one.prove(table, topic="rt-out")}
    assert "has 8 partitions" in refusals["changelog"]
    cluster.delete("rt-out")
    one.run(app, until="caught_up")  # as the messages say: it is published again
    assert lake("c").restore(table, "rt-out") == 20
    assert rows(lake("c"), table) == rows(one, table)

    # A topic that removes records by age loses the keys that change seldom.
    admin.set_policy("rt-out", "delete")
    admin.remove("rt-out", 7)
    with pytest.raises(ConfigError, match=r"topic 'rt-out' has cleanup\.policy=delete.*Expected compact"):
        one.run(app, until="caught_up")
    admin.set_policy("rt-out", "compact")
    cut = "rt-out/0 begins at offset 7: Kafka removed the records before it"
    with pytest.raises(StorageError, match=f"{cut}.*Nothing was published"):
        one.run(app, until="caught_up")
    with pytest.raises(NotFound, match=cut):
        lake("d").restore(table, "rt-out")


def test_keys_in_another_format_are_not_published_nor_restored_beside_the_earlier_ones(
    lake, cluster, send, broker: Broker, records: Callable[[str], list[Any]], registry: EmbeddedRegistry, tmp_path: Path
) -> None:
    """Kafka kept the last record under each spelling: a restore had two rows of a key, or one that was deleted."""
    cluster.create("rs-in")
    table = counted("rs-in", "rs_counts")
    usual, in_json, in_avro = (
        lh.app(table.changes().to_topic("rs-out", key_format=format)) for format in (None, "json", "avro")
    )
    one = lake("a")
    send("rs-in", [("Wien", "5", T), ("Graz", "5", T)])
    one.run(usual, until="caught_up")
    send("rs-in", [("Wien", "6", T + 1)])
    with pytest.raises(
        StorageError,
        match=r"'rs-out' has keys in the format 'kafka', and they would go on in 'json': .*delete 'rs-out'",
    ):
        one.run(in_json, until="caught_up")
    assert len(records("rs-out")) == 2
    one.run(usual, until="caught_up")  # as the message says: with the earlier format it goes on
    assert lake("b").restore(table, "rs-out") == 2

    # A topic that had gone on before covers said in which format its keys are.
    (wien,) = (message for message in records("rs-out") if json.loads(message.value())["last"] == "6")
    headers = (*wien.headers(), (FORMAT, b'["json", "json"]'))
    produce(broker.bootstrap_servers, {}, "rs-out", [ProducerRecord(b'{"k":"Wien"}', None, T, headers)])
    twice = r"record rs-out/0@\d+ has the key .*Wien.*, which is written as .*Wien.* in record rs-out/0@"
    with pytest.raises(NotFound, match=rf"{twice}.*The format of the keys.*Build the table from bronze; or delete"):
        lake("c").restore(table, "rs-out")
    refusals = {proof.origin: proof.refused or "" for proof in one.prove(table, topic="rs-out")}
    assert re.match(twice, refusals["changelog"])

    # The id of a registered schema is in the bytes of each key: another registry has other ids.
    cluster.delete("rs-out")

    def with_registry(name: str, url: str) -> Lake:
        settings = lake(name).settings
        return Lake(settings=replace(settings, registry=replace(settings.registry, url=url)))

    with EmbeddedRegistry(tmp_path / "other registry") as other:
        client = SchemaRegistryClient({"url": other.url})
        for number in range(50):
            name = f'{{"type": "record", "name": "another{number}", "fields": []}}'
            client.register_schema(f"another{number}", Schema(name, "AVRO"))
        with_registry("a", registry.url).run(in_avro, until="caught_up")
        assert with_registry("d", registry.url).restore(table, "rs-out") == 2
        send("rs-in", [("Wien", "7", T + 2)])
        with pytest.raises(StorageError, match=r"format 'avro\?id=\d+[^']*', and they would go on in 'avro\?id=51"):
            with_registry("a", other.url).run(in_avro, until="caught_up")


def test_records_that_kafka_lost_after_the_changelog_are_told(lake, cluster, send, admin: Admin) -> None:
    cluster.create("rl-in")
    table = counted("rl-in", "rl_counts")
    app, first = lh.app(table.changes().to_topic("rl-out")), lake("a")
    send("rl-in", [("k", str(n), T + n) for n in range(5)])
    first.run(app, until="caught_up")
    send("rl-in", [("k", str(n), T + n) for n in range(5, 15)])
    full = lake("full")
    full.run(
        lh.app(lh.stream("rl-in", key="k string", schema="word string", format="kafka").latest("any")),
        until="caught_up",
    )
    admin.remove("rl-in", 10)
    topic_id = cluster.topics(["rl-in"])["rl-in"].id
    lost = rf"topic rl-in \(id {topic_id}\) partition 0: offsets \[5, 10\): expired"
    with pytest.raises(DataLoss, match=rf"(?s)'rl_counts'.*{lost}.*Nothing was restored.*on_data_loss = .record"):
        lake("b").restore(table, "rl-out")
    assert full.restore(table, "rl-out") == 1  # its bronze has them
    full.run(lh.app(table), until="caught_up")
    assert rows(full, table) == [("k", 15, "14")]
    accepting = lake("b", on_data_loss="record")
    assert accepting.restore(table, "rl-out") == 1
    layout = Layout(accepting.settings.lake.path)
    assert [(gap["topic"], gap["from_offset"], gap["to_offset"]) for gap in read_gaps(layout)] == [("rl-in", 5, 10)]
    accepting.run(app, until="caught_up")
    assert rows(accepting, table) == [("k", 10, "14")]


def test_rows_that_a_format_does_not_tell_apart_are_not_restored(lake, cluster, send) -> None:
    cluster.create("rf-in")
    stream = lh.stream("rf-in", key="k string", schema="word string", format="json")
    lines, values = stream.latest("rf_lines"), stream.latest("rf_values")
    app = lh.app(
        lines.changes().to_topic("rf-lines", format="delimited"), values.changes().to_topic("rf-values", format="kafka")
    )
    one = lake("a")
    send("rf-in", [('{"k":"x"}', '{"word":"x"}', T), ('{"k":"n"}', '{"word":null}', T)])
    one.run(app, until="caught_up")
    with pytest.raises(NotFound, match=r"record rf-values/0@\d has a value in the format kafka.*another format \(json"):
        lake("b").restore(values, "rf-values")
    with pytest.raises(
        NotFound, match="record rf-lines/0@1 is in the format delimited, and its column word is a null or"
    ):
        lake("b").restore(lines, "rf-lines")
    send("rf-in", [('{"k":"n"}', '{"word":"y"}', T + 1)])
    one.run(app, until="caught_up")
    assert lake("b").restore(lines, "rf-lines") == 2
    assert rows(lake("b"), lines) == rows(one, lines)


def test_a_changelog_begun_after_its_topic_was_recreated_covers_the_earlier_records(lake, cluster, send) -> None:
    """A lake whose bronze has both topics' records counted those of the deleted one once more, without a word."""
    table = counted("rt-again", "rt_again")
    app, published = lh.app(table), lh.app(table.changes().to_topic("rt-again-out", partitions=1))
    one, other = lake("again", on_data_loss="record"), lake("again-other", on_data_loss="record")
    cluster.create("rt-again")
    send("rt-again", [("k", "old", T + n) for n in range(3)])
    one.run(app, until="caught_up")
    other.run(app, until="caught_up", parts=("ingest",))
    cluster.delete("rt-again")
    cluster.create("rt-again")
    send("rt-again", [("k", "new", T + 10 + n) for n in range(2)])
    one.run(app, until="caught_up")
    one.run(published, until="caught_up")
    other.run(app, until="caught_up", parts=("ingest",))
    assert other.restore(table, "rt-again-out") == 1
    other.run(app, until="caught_up")
    assert rows(other, table) == rows(one, table) == [("k", 5, "new")]
