"""`lakehouse infer`: what a topic's records say, with a broker."""

from __future__ import annotations

import json

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from tests.cli.conftest import Command

T = 1_767_225_600_000  # 2026-01-01


@pytest.fixture
def kafka(broker: Broker, folder: object, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    return broker


def test_a_declaration_is_proposed_with_its_evidence(kafka: Broker, lakehouse: Command) -> None:
    """Of a topic of three partitions: 40 orders, a delete, a value that is no JSON."""
    topic = "infer-orders"
    Cluster(kafka.bootstrap_servers).create(topic, partitions=3)
    orders = [
        ProducerRecord(
            b"o%d" % n, json.dumps({"id": f"o{n}", "amount": n + 0.5, "at": f"2026-01-01T00:{n:02d}:00Z"}).encode(), T
        )
        for n in range(40)
    ]
    produce(
        kafka.bootstrap_servers, {}, topic,
        [*orders, ProducerRecord(b"o1", None, T), ProducerRecord(b"o2", b"\x1b[2J no", T)],
    )  # fmt: skip
    groups_before = lakehouse("kafka", "groups", "--json").out
    outcome = lakehouse("infer", topic)
    assert outcome.code == 0, outcome.err
    out = " ".join(outcome.out.split())
    assert "Topic infer-orders, 42 records" in out
    assert "Would go to the quarantine: 1 of 42 (2.38%)" in out
    assert 'infer_orders = lh.stream( "infer-orders", key="id string",' in out
    assert 'schema="amount decimal(10, 1), at timestamp", event_time="at", )' in out
    assert "CREATE STREAM infer_orders ( id VARCHAR KEY, amount DECIMAL(10, 1), at VARCHAR )" in out
    assert "\x1b" not in outcome.out
    facts = json.loads(lakehouse("infer", topic, "--json").out)
    assert [(column["field"], column["type"], column["key"]) for column in facts["columns"]] == [
        ("id", "string", True), ("amount", "decimal(10, 1)", False), ("at", "timestamp", False),
    ]  # fmt: skip
    assert facts["unread"] == [
        {"reason": "value: expected a JSON object", "records": 1, "first": facts["unread"][0]["first"]}
    ]
    assert facts["unread"][0]["first"].startswith("infer-orders/")
    few = json.loads(lakehouse("infer", topic, "--sample", "6", "--json").out)
    assert few["records"] <= 6
    assert lakehouse("kafka", "groups", "--json").out == groups_before


def test_a_topic_without_records_and_one_that_does_not_exist(kafka: Broker, lakehouse: Command) -> None:
    Cluster(kafka.bootstrap_servers).create("infer-nothing", partitions=1)
    outcome = lakehouse("infer", "infer-nothing")
    assert outcome.code != 0
    assert "topic 'infer-nothing' has no records" in outcome.err
    outcome = lakehouse("infer", "infer-no-such")
    assert outcome.code != 0
    assert "Found no topic 'infer-no-such'" in outcome.err
    outcome = lakehouse("infer", "infer-nothing", "--sample", "0")
    assert outcome.code == 2
