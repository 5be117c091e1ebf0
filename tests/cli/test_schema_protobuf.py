"""`lakehouse schema pull` and `check`, and `lakehouse kafka produce`, in Protobuf, with a registry and a broker."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from google.protobuf.descriptor_pb2 import FileDescriptorSet

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.topics import Cluster
from lakehouse.ksql.script import Script
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.protobuf.protoc import compile_proto
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.run.start.application import load_app
from tests.cli.conftest import Command

APP = """
import lakehouse as lh

orders = lh.stream("{topic}", format="protobuf", key_format="protobuf", name="orders")
app = lh.app(orders.latest("current"))
"""
MONEY = 'syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; }\n'
ORDER = """syntax = "proto3";
package shop;
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
message Order { string city = 1; Money amount = 2; google.protobuf.Timestamp at = 3;%s }
"""
KEY = 'syntax = "proto3"; message Key { int64 id = 1; string shop = 2; }'
Register = Callable[..., int]


@pytest.fixture
def register(registry: EmbeddedRegistry, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    """register(subject, text): the id of a schema in the registry, which the commands use."""
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", registry.url)
    client = SchemaRegistryClient({"url": registry.url})
    return lambda subject, text, *references: client.register_schema(
        subject, Schema(text, "PROTOBUF", [SchemaReference(name, of, 1) for name, of in references])
    )


def words(text: str) -> str:
    return " ".join(text.split())


def test_pull_check_and_an_application_with_the_pinned_columns(
    lakehouse: Command, register: Register, folder: Path
) -> None:
    register("money", MONEY)
    imported = ("shop/money.proto", "money")
    register("pb-pull-value", ORDER % "", imported)
    register("pb-pull-key", KEY)
    Path("app.py").write_text(APP.format(topic="pb-pull"))
    missing = lakehouse("schema", "check", "--app", "app.py")
    assert missing.code == 2
    assert "pb-pull-value.proto. `lakehouse schema pull pb-pull` writes it out of the registry" in words(missing.err)
    assert lakehouse("schema", "pull", "pb-pull").out.splitlines() == [
        "schemas/pb-pull-key.proto: pb-pull-key, version 1: new.",
        "schemas/pb-pull-value.proto: pb-pull-value, version 1: new.",
    ]
    assert Path("schemas/pb-pull-value.proto").read_text() == ORDER % ""
    assert Path("schemas/pb-pull-value/shop/money.proto").read_text() == MONEY
    (source,) = load_app("app.py").sources
    assert ", ".join(map(str, source.key)) == "id bigint, shop string"
    assert ", ".join(map(str, source.value)) == "city string, amount struct<`cents`: bigint>, at timestamp"
    assert lakehouse("schema", "check", "--app", "app.py").code == 0
    assert words(lakehouse("schema", "pull", "--app", "app.py").out).endswith("version 1: unchanged.")
    script = Script(folder=folder)
    script.run("CREATE STREAM s WITH (KAFKA_TOPIC='pb-pull', FORMAT='PROTOBUF');")
    (entry,) = script.catalog.entries.values()
    assert [f"{column.name} {column.kind}" for column in entry.columns] == [
        "ID BIGINT", "SHOP VARCHAR(STRING)", "CITY VARCHAR(STRING)", "AMOUNT STRUCT<CENTS BIGINT>", "AT TIMESTAMP",
    ]  # fmt: skip

    register("pb-pull-value", ORDER % " optional string note = 4;", imported)
    checked = lakehouse("schema", "check", "--app", "app.py")
    assert checked.code == 1
    assert "differs pinned schemas/pb-pull-value.proto: pb-pull-value, version 2 added note string" in words(
        checked.out
    )
    assert "ok declared stream orders, value: pb-pull-value, version 2" in words(checked.out)
    assert "version 2: added note string." in words(lakehouse("schema", "pull", "pb-pull").out)


def test_a_compiled_schema_is_pinned_as_it_is_and_others_are_refused(
    lakehouse: Command, register: Register, folder: Path
) -> None:
    file = FileDescriptorSet.FromString(compile_proto(KEY, {}).files).file[0]
    register("pb-compiled-value", base64.b64encode(file.SerializeToString()).decode())
    register("pb-tree-value", 'syntax = "proto3"; message Tree { repeated Tree parts = 1; string name = 2; }')
    assert lakehouse("schema", "pull", "pb-compiled").code == 0
    Path("app.py").write_text(APP.format(topic="pb-compiled").replace('key_format="protobuf"', 'key="k"'))
    (source,) = load_app("app.py").sources
    assert ", ".join(map(str, source.value)) == "id bigint, shop string"
    refused = lakehouse("schema", "pull", "pb-tree")
    assert refused.code == 1
    assert "field parts: 'Tree' is a part of itself" in words(refused.out)
    assert not Path("schemas/pb-tree-value.proto").exists()
    with pytest.raises(PlanError, match=r"no column is declared, and there is no file .*pb-none-value\.proto"):
        lh.stream("pb-none", key="id string", format="protobuf")


def test_produce(lakehouse: Command, register: Register, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    Cluster(broker.bootstrap_servers).create("pb-made", partitions=1)
    Path("value.proto").write_text(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; enum State { OPEN = 0; PAID = 1; } '
        "message Order { string city = 1; google.protobuf.Timestamp at = 2; State state = 3; bytes raw = 4; }"
    )
    Path("key.proto").write_text(KEY)
    value = {"city": "Rome", "at": "2026-01-31T12:00:00.5Z", "state": "PAID", "raw": "AAE="}
    lines = [{"key": {"id": "7", "shop": "é"}, "value": value}, {"key": {"id": 8}, "value": None}]
    Path("orders.jsonl").write_text("\n".join(map(json.dumps, lines)))
    line = ("kafka", "produce", "pb-made", "orders.jsonl", "--format", "protobuf")
    assert "Give one: --schema value.proto" in words(lakehouse(*line).err)
    made = lakehouse(*line, "--schema", "value.proto", "--key-schema", "key.proto", "--json")
    assert made.code == 0, made.err
    id = json.loads(made.out)["schemas"]["value"]["id"]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "pb-made"})
    consumer.assign([TopicPartition("pb-made", 0, 0)])
    first, second = consumer.consume(2, timeout=20)
    consumer.close()
    schemas = WriterSchemas({id: WriterSchema("PROTOBUF", Path("value.proto").read_text())})
    columns = parse_schema("city string, at timestamp, state string, raw binary", "test")
    at = datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)
    row = {"city": "Rome", "at": at, "state": "PAID", "raw": b"\0\1"}
    assert codec_of("protobuf").with_schemas(schemas).decode(first.value(), columns) == row
    assert first.key()[5:] == b"\0\x08\x07\x12\x02\xc3\xa9"
    assert second.value() is None
    for text, reason in (
        ('{"value": {"city": 5}}', "message Order: "),
        ('{"value": {"town": "x"}}', 'no field named "town"'),
        ('{"value": [1]}', "message Order: "),
    ):
        Path("bad.jsonl").write_text(text)
        bad = lakehouse("kafka", "produce", "pb-made", "bad.jsonl", "--format", "protobuf")
        assert bad.code == 1
        assert reason in words(bad.err)
    Path("bad.proto").write_text("message {")
    bad_schema = lakehouse(*line, "--schema", "bad.proto")
    assert "bad.proto: no schema of Protobuf: 1:9: Expected message name" in words(bad_schema.err)
    other_kind = lakehouse("kafka", "produce", "pb-made", "orders.jsonl", "--format", "avro")
    assert "expected a schema of Avro, found one of PROTOBUF" in words(other_kind.err)


@pytest.mark.slow
def test_what_is_produced_without_a_registry_reaches_a_table(
    lakehouse: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    Cluster(broker.bootstrap_servers).create("pb-plain", partitions=1)
    Path("schemas").mkdir()
    Path("schemas/pb-plain-value.proto").write_text(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; enum State { OPEN = 0; PAID = 1; } '
        "message Order { string city = 1; google.protobuf.Timestamp at = 2; State state = 3; bytes raw = 4; }"
    )
    Path("schemas/pb-plain-key.proto").write_text(KEY)
    value = {"city": "Rome", "at": "2026-01-31T12:00:00.500Z", "state": "PAID", "raw": "AAE="}
    Path("orders.jsonl").write_text(json.dumps({"key": {"id": "7", "shop": "é"}, "value": value}))
    line = ("kafka", "produce", "pb-plain", "orders.jsonl", "--format", "protobuf_nosr")
    assert "without a registry: --schema FILE" in words(lakehouse(*line).err)
    schemas = ("--schema", "schemas/pb-plain-value.proto", "--key-schema", "schemas/pb-plain-key.proto")
    assert lakehouse(*line, *schemas).code == 0
    Path("plain.py").write_text(
        """import lakehouse as lh
orders = lh.stream("pb-plain", format="protobuf_nosr", key_format="protobuf_nosr")
app = lh.app(orders.latest("plain_orders").changes().to_topic("pb-plain-out", format="protobuf_nosr"))
"""
    )
    shown = lakehouse("kafka", "consume", "pb-plain", "--app", "plain.py", "--json")
    record = json.loads(shown.out.splitlines()[0])
    assert (record["key"], record["value"]) == ({"id": "7", "shop": "é"}, value), shown.out
    run = lakehouse("run", "--app", "plain.py", "--until", "caught-up")
    assert run.code == 0, run.err
    rows = lakehouse("query", "SELECT city, state FROM plain_orders", "--json")
    assert json.loads(rows.out.splitlines()[0]) in (
        {"city": "Rome", "state": "PAID"},
        [{"city": "Rome", "state": "PAID"}],
    )
    shown = lakehouse("kafka", "consume", "pb-plain-out", "--app", "plain.py", "--json")
    assert json.loads(shown.out.splitlines()[0])["value"] == value, shown.out
