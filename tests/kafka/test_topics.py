"""Topics: ids, offsets as a read_committed reader sees them, and clear errors."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from lakehouse.errors import ConfigError, KafkaUnavailable, LakehouseError, NotFound
from lakehouse.kafka import drain, ranges
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.options import java_options, librdkafka_options
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.process import find_free_port


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


def test_topics_by_name_and_by_pattern(cluster: Cluster) -> None:
    cluster.create("topics-one", partitions=3)
    cluster.create("topics-two", config={"cleanup.policy": "compact"})
    assert cluster.topics(["topics-one"])["topics-one"].partitions == 3
    assert set(cluster.topics("topics-.*")) == {"topics-one", "topics-two"}
    assert cluster.topics("topics") == {}  # a pattern matches the whole name
    assert cluster.topics([]) == {}
    assert cluster.config("topics-one")["cleanup.policy"] == "delete"
    assert cluster.config("topics-two")["cleanup.policy"] == "compact"


def test_only_kafkas_own_topics_are_internal(cluster: Cluster) -> None:
    cluster.create("__debezium-heartbeat.db")
    names = cluster.names()
    assert "__debezium-heartbeat.db" in names
    assert "__consumer_offsets" not in names


def test_a_replica_that_lags_behind_does_not_end_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer's end of a partition is that of the replica that answers; the leader may have more."""
    end = SimpleNamespace(code=lambda: KafkaError._PARTITION_EOF)

    def message(offset: int, error: Any = None) -> Any:
        return SimpleNamespace(
            error=lambda: error, topic=lambda: "t", partition=lambda: 0, offset=lambda: offset, headers=list,
            timestamp=lambda: (1, 0), key=lambda: None, value=lambda: b"v",
        )  # fmt: skip

    class Lagging:
        def __init__(self, *_: Any, **__: Any) -> None:
            # The follower has three records, then the rest; offset 5 is the marker of a transaction.
            self.messages = [*map(message, range(3)), message(3, end), *map(message, range(3, 5)), message(6, end)]

        def assign(self, *_: Any) -> None: ...
        def close(self) -> None: ...

        def poll(self, *_: Any) -> Any:
            return self.messages.pop(0)

        def consume(self, *_: Any) -> list[Any]:
            return [self.messages.pop(0)]

    monkeypatch.setattr(ranges, "_ranges_consumer", Lagging)
    monkeypatch.setattr(drain, "_drain_consumer", Lagging)
    records = ranges.read_ranges("", {}, {"t": {0: 0}}, {"t": {0: 6}})
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    unused: Any = None
    messages = drain.read_offsets(unused, {}, "t", {0: (0, 6)})
    assert [item.offset() for item in messages] == [0, 1, 2, 3, 4]


def test_a_recreated_topic_has_another_id(cluster: Cluster) -> None:
    cluster.create("anew")
    before = cluster.topics(["anew"])["anew"].id
    assert cluster.topics(["anew"])["anew"].id == before
    cluster.delete("anew")
    cluster.create("anew")
    assert cluster.topics(["anew"])["anew"].id != before


def test_topics_that_are_deleted_are_gone_and_those_made_anew_stay(cluster: Cluster, broker: Broker) -> None:
    """Kafka answers before its clients see what it did: a new topic was taken for the one before, and then missing."""
    names = [f"again-{number}" for number in range(12)]
    for _ in range(4):
        for name in names:
            cluster.create(name, partitions=4)
            assert name in Cluster(broker.bootstrap_servers).existing_topics([name])
        for name in names:
            cluster.delete(name)
        assert Cluster(broker.bootstrap_servers).existing_topics(names) == {}


def test_offsets_end_before_an_open_transaction(cluster: Cluster, broker: Broker) -> None:
    """
    offset   0 1 2 | 3 4 | 5
             plain | txn | commit marker
    """
    cluster.create("transacted")
    place = ("transacted", 0)
    assert cluster.offsets([place]) == {place: (0, 0)}
    produce(broker.bootstrap_servers, {}, "transacted", [ProducerRecord(b"k", b"v")] * 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(2):
        producer.produce("transacted", b"v")
    producer.flush()
    assert cluster.offsets([place]) == {place: (0, 3)}
    producer.commit_transaction()
    deadline = time.monotonic() + 10  # the marker is written after the answer
    while cluster.offsets([place]) == {place: (0, 3)} and time.monotonic() < deadline:
        time.sleep(0.02)
    assert cluster.offsets([place]) == {place: (0, 6)}


def test_what_does_not_exist(cluster: Cluster) -> None:
    cluster.create("flights", partitions=2)
    with pytest.raises(NotFound, match="Did you mean 'flights'"):
        cluster.topics(["fligths"])
    with pytest.raises(NotFound, match="'nowhere'"):
        cluster.offsets([("flights", 0), ("nowhere", 0)])
    with pytest.raises(NotFound, match=r"partition 2 .*expected 0 to 1"):
        cluster.offsets([("flights", 0), ("flights", 2)])
    with pytest.raises(NotFound):
        cluster.delete("nowhere")
    with pytest.raises(NotFound):
        cluster.config("nowhere")


def test_what_kafka_refuses(cluster: Cluster) -> None:
    cluster.create("once")
    with pytest.raises(LakehouseError, match="already"):
        cluster.create("once")
    with pytest.raises(KafkaUnavailable, match="name is invalid"):
        cluster.create("not a name")


def test_nobody_answers() -> None:
    address = f"127.0.0.1:{find_free_port()}"
    with pytest.raises(KafkaUnavailable, match=r"within 1 s: .*refused") as caught:
        Cluster(address, timeout_seconds=1.0).topics(["any"])
    assert "kafka.bootstrap_servers" in str(caught.value)


def test_an_unknown_option() -> None:
    with pytest.raises(ConfigError, match=r"no\.such"):
        Cluster("127.0.0.1:1", {"no.such": "1"})


def test_one_spelling_serves_both_kinds_of_client() -> None:
    native = {
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'a"b\\c',
        "ssl.ca.location": "ca",
    }
    java = java_options(native)
    assert java["sasl.jaas.config"].endswith(r'PlainLoginModule required username="me" password="a\"b\\c";')
    assert java["ssl.truststore.type"] == "PEM"
    assert "sasl.password" not in java
    assert librdkafka_options(java) == native
    oauth = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": 'la"ke',
        "sasl.oauthbearer.client.secret": "hush\\hush",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token?realm=a",
    }
    java = java_options(oauth)
    assert java["sasl.jaas.config"].endswith(
        r'OAuthBearerLoginModule required clientId="la\"ke" clientSecret="hush\\hush" scope="kafka";'
    )
    assert sorted(name for name in java if "client" in name or "scope" in name) == []
    assert librdkafka_options(java) == librdkafka_options(oauth) == {**oauth, "sasl.oauthbearer.method": "oidc"}
    with pytest.raises(ConfigError, match=r"without sasl\.oauthbearer\.client\.secret"):
        java_options({name: value for name, value in oauth.items() if "secret" not in name})
    for url in ("login.example.com", "https://login.example.com/ -Dx=y", "file:///etc/passwd"):
        with pytest.raises(ConfigError, match="expected a URL"):
            java_options({**oauth, "sasl.oauthbearer.token.endpoint.url": url})
    with pytest.raises(ConfigError, match="has a login before the @") as caught:
        java_options({**oauth, "sasl.oauthbearer.token.endpoint.url": "https://me:hush@login.example.com/token"})
    assert "hush" not in str(caught.value)
    with pytest.raises(ConfigError, match="GSSAPI"):
        java_options({"sasl.mechanism": "GSSAPI", "sasl.username": "me"})
