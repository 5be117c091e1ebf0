"""`lakehouse kafka consume`, `topics` and `groups`, with a broker and a registry."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from lakehouse.formats.codec.registered import with_prefix
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.registry.embedded import EmbeddedRegistry
from tests.cli.conftest import Command

T = 1_767_225_600_000  # 2026-01-01
ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "city", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}  # fmt: skip
Consume = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def send(broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """send(topic, record, ...): a new topic of two partitions with these records."""
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def send(topic: str, *records: ProducerRecord) -> None:
        Cluster(broker.bootstrap_servers).create(topic, partitions=2)
        produce(broker.bootstrap_servers, {}, topic, records)

    return send


@pytest.fixture
def consumed(lakehouse: Command) -> Consume:
    """consumed(argument, ...): the lines of --json."""

    def consumed(*arguments: str) -> list[dict[str, Any]]:
        outcome = lakehouse("kafka", "consume", *arguments, "--json")
        assert outcome.code == 0, outcome.err
        return [json.loads(line) for line in outcome.out.splitlines()]

    return consumed


def test_where_it_begins_and_ends(send: Any, consumed: Consume, lakehouse: Command) -> None:
    """
    partition 0: offsets 0..5 at T, T + 1 s, ..., T + 5 s; partition 1: offset 0 at T + 3 s
    """
    first = [ProducerRecord(b"k", b"%d" % number, T + 1000 * number, partition=0) for number in range(6)]
    send("edges", *first, ProducerRecord(None, b"100", T + 3000, partition=1))

    def values(*arguments: str) -> list[int]:
        return sorted(record["value"] for record in consumed("edges", *arguments))

    assert values() == values("--from", "beginning", "--until", "end") == [0, 1, 2, 3, 4, 5, 100]
    assert values("--from", "4") == [4, 5]
    assert values("--from", "-2") == [4, 5, 100]
    assert values("--from", "1", "--until", "3") == [1, 2]
    assert values("--until", "-5") == [0]
    assert values("--from", "2026-01-01T00:00:03Z") == [3, 4, 5, 100]
    assert values("--from", "2026-01-01T01:00:03+01:00", "--until", "2026-01-01T00:00:05") == [3, 4, 100]
    assert values("--from", "2026-01-02") == values("--from", "1000") == values("--until", "1969-12-31") == []
    assert values("--partition", "1") == [100]
    assert len(values("--limit", "2")) == 2
    nothing = lakehouse("kafka", "consume", "edges", "--from", "7")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "Topic edges has no such record.\n")
    for wrong, reason in (
        (("nowhere",), "Found no topic 'nowhere'"),
        (("edges", "--partition", "2"), "Found no partition 2 of topic 'edges'; expected 0 to 1."),
        (("edges", "--from", "yesterday"), "expected beginning, end, an offset (12)"),
        (("edges", "--follow", "--until", "end"), "expected one of them"),
        (("../edges",), "topic '../edges'"),
    ):
        refused = lakehouse("kafka", "consume", *wrong)
        assert refused.code == 2
        assert reason in " ".join(refused.err.split())


def test_what_it_shows_of_any_record(send: Any, consumed: Consume, lakehouse: Command) -> None:
    send(
        "any",
        ProducerRecord(b"a", b'{"x":\n 1.50}', T, (("h", b"1"), ("h", b"\xff"), ("none", None)), partition=0),
        ProducerRecord(None, None, T, partition=0),
        ProducerRecord(b"\0\0\0\7", "two\nlines \x1b[2J \u202e".encode(), T, partition=0),
        ProducerRecord(b"", b"\xff\xfe", 9_000_000_000_000_000, partition=0),
        ProducerRecord(b"long", b"x" * 300_000, T, partition=0),
    )
    records = consumed("any")
    assert [(r["topic"], r["partition"], r["offset"]) for r in records] == [("any", 0, n) for n in range(5)]
    assert (records[0]["timestamp"], records[3]["timestamp"]) == ("2026-01-01T00:00:00Z", 9_000_000_000_000_000)
    assert (records[0]["key"], records[0]["value"]) == ("a", {"x": 1.5})
    assert records[0]["headers"] == [
        {"name": "h", "value": "1"},
        {"name": "h", "value_base64": "/w=="},
        {"name": "none", "value": None},
    ]
    assert (records[1]["key"], records[1]["value"]) == (None, None)
    assert (records[2]["key_base64"], records[2]["value_base64"]) == (
        "AAAABw==", base64.b64encode("two\nlines \x1b[2J \u202e".encode()).decode(),
    )  # fmt: skip
    assert (records[3]["key"], records[3]["value_base64"]) == ("", "//4=")
    (as_text,) = consumed("any", "--from", "2", "--limit", "1", "--format", "string", "--key-format", "int")
    assert (as_text["key"], as_text["value"]) == (7, "two\nlines \x1b[2J \u202e")
    (as_json,) = consumed("any", "--from", "3", "--limit", "1", "--format", "json")
    assert as_json["value_reason"] == "not json: expected UTF-8, found byte 0xff at 0"

    lines = lakehouse("kafka", "consume", "any", "--format", "string").out.splitlines()
    assert len(lines) == 5  # no record's text makes a line of its own
    assert lines[0] == 'any/0/0  2026-01-01 00:00:00.000Z  a  {"x":\\n 1.50}  (3 headers)'
    assert lines[1] == "any/0/1  2026-01-01 00:00:00.000Z  null  null"
    assert lines[2].endswith("\\x00\\x00\\x00\\x07  two\\nlines \\x1b[2J \\u202e")
    assert lines[3].startswith("any/0/3  9000000000000000  ")
    assert lines[3].endswith("\\xff\\xfe (not string: expected UTF-8, found byte 0xff at 0)")
    assert lines[4].endswith("xxx... (300,000 bytes; all of them with --json)")


@pytest.mark.rotated
def test_the_formats_of_the_application_and_of_the_registry(
    send: Any, consumed: Consume, lakehouse: Command, registry: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    id = client.register_schema("shown-value", Schema(json.dumps(ORDER), "AVRO"))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), {"city": "Rome", "amount": Decimal(12)})
    order = with_prefix(id, stream.getvalue())
    send("shown", ProducerRecord((7).to_bytes(8, "big"), order, T), ProducerRecord(b"x", with_prefix(99, b"{}"), T))
    Path("app.py").write_text(
        "import lakehouse as lh\n"
        "orders = lh.stream('shown', key='id bigint', schema='amount decimal(9, 2)', format='avro')\n"
        "totals = orders.group_by('id').agg(n=lh.count()).table('totals')\n"
        "app = lh.app(totals, totals.changes().to_topic('shown-totals'))\n"
    )
    send("shown-totals", ProducerRecord((1).to_bytes(8, "big"), b'{"n": 1}', T))
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", registry.url)
    first, second = sorted(consumed("shown", "--app", "app.py"), key=lambda record: "key" not in record)
    assert (first["key"], first["value"]) == (7, {"city": "Rome", "amount": 12})
    assert "12.00" in lakehouse("kafka", "consume", "shown", "--app", "app.py").out
    assert second["key_reason"] == "not bigint: expected 8 bytes (bigint), found 1: 0x78"
    assert second["value_reason"] == "not avro: the registry has no schema 99"
    assert [record["key"] for record in consumed("shown-totals", "--app", "app.py")] == [1]
    guessed = consumed("shown")
    assert {"city": "Rome", "amount": 12} in [record.get("value") for record in guessed]
    assert {} in [record.get("value") for record in guessed]

    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_TIMEOUT_SECONDS", "1")
    assert "gives no answer that can be used" in lakehouse("kafka", "consume", "shown", "--format", "avro").err
    away = [record for record in consumed("shown") if "value_reason" in record]
    assert len(away) == 1
    assert "gives no answer" in away[0]["value_reason"]
    Path("app.py").write_text("1 / 0")
    monkeypatch.setenv("LAKEHOUSE_LAKE_APP", "app.py")
    broken = lakehouse("kafka", "consume", "shown-totals")
    assert broken.code == 0
    assert "The formats are guessed, because the application can't be loaded" in broken.err
    assert lakehouse("kafka", "consume", "shown-totals", "--app", "app.py").code == 2


def test_transactions_and_what_is_left_behind(send: Any, consumed: Consume, lakehouse: Command, broker: Broker) -> None:
    send("open", ProducerRecord(b"k", b"1", T, partition=0))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "consume"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("open", b"2", b"k", partition=0)
    producer.flush()
    assert [record["value"] for record in consumed("open")] == [1]
    assert [record["value"] for record in consumed("open", "--uncommitted")] == [1, 2]
    producer.abort_transaction()
    assert [record["value"] for record in consumed("open")] == [1]

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert "lakehouse.drain" not in [group.group_id for group in admin.list_consumer_groups().result().valid]
    reader = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shown-group", "auto.offset.reset": "earliest"}
    )
    reader.subscribe(["open"])
    assert reader.poll(20) is not None
    reader.commit(asynchronous=False)
    reader.close()
    rows = [json.loads(line) for line in lakehouse("kafka", "groups", "--json").out.splitlines()]
    (row,) = [row for row in rows if row["group"] == "shown-group"]
    assert (row["state"], row["topic"]) == ("EMPTY", "open")
    assert row["lag"] >= 0
    topics = {row["topic"]: row for row in map(json.loads, lakehouse("kafka", "topics", "--json").out.splitlines())}
    assert (topics["open"]["partitions"], topics["open"]["replicas"]) == (2, 1)
    assert topics["open"]["offsets"] >= 2
    assert "shown-group" in lakehouse("kafka", "groups").out


def test_what_comes_later_until_a_limit(send: Any, lakehouse: Command, broker: Broker) -> None:
    send("later", ProducerRecord(b"k", b"old", T, partition=0))
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.3):
            produce(broker.bootstrap_servers, {}, "later", [ProducerRecord(b"k", b"new", T, partition=0)])

    thread = threading.Thread(target=write)
    thread.start()
    begin = time.monotonic()
    try:
        outcome = lakehouse("kafka", "consume", "later", "--from", "end", "--limit", "2")
        followed = lakehouse("kafka", "consume", "later", "--follow", "--limit", "1")
    finally:
        done.set()
        thread.join()
    assert [line.split()[-1] for line in outcome.out.splitlines()] == ["new", "new"]
    assert followed.out.endswith("old\n")
    assert time.monotonic() - begin < 30
