"""A topic in Protobuf, from another producer through a real broker and registry to tables; and published in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict

import lakehouse as lh
from lakehouse.errors import SchemaRefused
from lakehouse.formats.codec.registered import with_prefix
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.protobuf.protoc import compile_proto
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.registry.opening import open_registry
from lakehouse.run.lake import Lake
from lakehouse.run.schemas.written_schemas import with_registered_id
from lakehouse.run.sql.session import SqlSession

T = 1_700_000_000_000
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; string currency = 2; }'
ORDER = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "money.proto"; import "google/type/date.proto";
message Other { string x = 1; }
message Order {
  string city = 1; Money amount = 2; google.protobuf.Timestamp at = 3; google.type.Date day = 4;
  enum State { OPEN = 0; PAID = 1; } State state = 5; repeated string tags = 6;
}
"""
AWAY = "http://127.0.0.1:9"  # the port of the service discard: nobody listens


def message_class(text: str, name: str, **imported: str) -> Any:
    """Return the class that protoc and Google's library make of a message."""
    files = compile_proto(text, {f"{file}.proto": imported[file] for file in imported}).files
    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.fixture
def with_registry(lake: Callable[..., Lake], registry: EmbeddedRegistry) -> Callable[..., Lake]:
    def make(name: str = "lake", url: str = "") -> Lake:
        settings = lake(name).settings
        return Lake(settings=replace(settings, registry=replace(settings.registry, url=url or registry.url)))

    return make


@pytest.mark.rotated
def test_rows_of_a_python_and_a_java_producer_reach_the_table(cluster, broker, registry, with_registry) -> None:
    cluster.create("pb-orders", partitions=1)
    client = SchemaRegistryClient({"url": registry.url})
    order = message_class(ORDER, "shop.Order", money=MONEY)
    write = ProtobufSerializer(order, client)  # registers base64, and what is imported
    place = SerializationContext("pb-orders", MessageField.VALUE)

    def message(**fields: Any) -> Any:
        return ParseDict(fields, order())

    first = write(
        message(
            city="Rome", amount={"cents": "1250", "currency": "EUR"}, at="2026-01-31T12:00:00.123456789Z",
            day={"year": 2026, "month": 1, "day": 31}, state="PAID", tags=["a", "é"],
        ),
        place,
    )  # fmt: skip
    client.register_schema("shop-money", Schema(MONEY, "PROTOBUF"))
    reference = SchemaReference("shop/money.proto", "shop-money", 1)
    java = Schema(ORDER.replace("money.proto", "shop/money.proto"), "PROTOBUF", [reference])
    id = client.register_schema("java-orders-value", java)
    second = with_prefix(id, b"\x02\x02" + message(city="Oslo", state=7).SerializeToString())
    values = [first, second, with_prefix(id, b"\0" + b"\x0a\x01a"), with_prefix(id, b"\x02\x02\xff"), b"{}"]
    records = [ProducerRecord(str(key).encode(), value, T) for key, value in enumerate(values)]
    produce(broker.bootstrap_servers, {}, "pb-orders", records)
    schema = (
        "city string, amount struct<cents: bigint>, at timestamp, day date, state string, tags array<string>, more int"
    )
    orders = lh.stream("pb-orders", key="id string", schema=schema, format="protobuf").latest("orders")
    app, lake = lh.app(orders), with_registry()
    lake.run(app, until="caught_up")
    rows = [row.asDict(recursive=True) for row in lake.read(orders).orderBy("id").collect()]
    assert [row.pop("at") and row["id"] for row in rows] == ["0", None, None]
    assert [tuple(row.values()) for row in rows] == [
        ("0", "Rome", {"cents": 1250}, date(2026, 1, 31), "PAID", ["a", "é"], None),
        ("1", "Oslo", None, None, "7", [], None),
        ("2", None, None, None, None, None, None),  # the first message of the file, which has none of the fields
    ]
    reasons = [row[0] for row in lake.query('SELECT reason FROM quarantine.pb_orders ORDER BY "offset"').rows]
    assert reasons[0] == f"value: schema {id}: expected a message shop.Order, found 1 bytes that are none"
    assert reasons[1].endswith("found 0x7b7d: it looks like JSON")
    assert len(LakeSchemas(Layout(lake.settings.lake.path)).find("pb-orders", "value")) == 2
    assert with_registry(url=AWAY).backfill(app, orders).differing.equal
    assert [step.did for step in with_registry(url=AWAY).explain(orders, "1")[0].steps] == ["inserted"]


@pytest.mark.rotated
def test_a_changelog_is_read_by_others_and_restores(cluster, broker, registry, with_registry, records) -> None:
    cluster.create("pb-clicks", partitions=2)
    clicks = lh.stream("pb-clicks", key="page string", schema="user string, cost decimal(8, 2)")
    grouped = clicks.group_by("page").agg(n=lh.count(), cost=lh.sum("cost"), users=lh.collect_set("user"))
    totals = grouped.table("pb_totals")
    app = lh.app(totals.changes().to_topic("pb-totals", format="protobuf", key_format="protobuf"))
    clicked = [
        ProducerRecord(page.encode(), json.dumps({"user": "u", "cost": cost}).encode(), T + number)
        for number, (page, cost) in enumerate([("a", 1.5), ("b", 2), ("a", 0.25), ("a", -3)])
    ]
    produce(broker.bootstrap_servers, {}, "pb-clicks", clicked)
    first = with_registry("first")
    first.run(app, until="caught_up")
    client = SchemaRegistryClient({"url": registry.url})
    texts = [client.get_latest_version(f"pb-totals-{part_name}").schema.schema_str for part_name in ("key", "value")]
    key_class = message_class(texts[0], "lakehouse.pb_totals_key")
    value_class = message_class(texts[1], "lakehouse.pb_totals_value")
    table = {}
    for message in records("pb-totals"):
        assert message.value()[5:6] == b"\0"
        key, value = key_class.FromString(message.key()[6:]), value_class.FromString(message.value()[6:])
        unscaled = int.from_bytes(value.cost.value, "big", signed=True)
        table[key.page] = (value.n, Decimal(unscaled).scaleb(-value.cost.scale), list(value.users))
    assert table == {"a": (3, Decimal("-1.25"), ["u"]), "b": (1, Decimal("2.00"), ["u"])}

    second = with_registry("second")
    assert second.restore(totals, "pb-totals") == 2
    assert {row.page: (row.n, row.cost, row.users) for row in second.read(totals).collect()} == table
    produce(broker.bootstrap_servers, {}, "pb-clicks", [ProducerRecord(b"b", b'{"user": "u", "cost": 1}', T + 9)])
    second.run(app, until="caught_up")
    assert {row.page: row.n for row in second.read(totals).collect()} == {"a": 3, "b": 2}

    section = second.settings.registry
    with closing(open_registry(section)) as opened:

        def written(schema: str) -> str:
            columns = parse_schema(schema, "test")
            with_registered_id(opened, section, "pb-totals", "value", "protobuf", columns)
            newest = opened.latest("pb-totals-value")
            return "" if newest is None else newest[1].text

        wider = written("more string, users array<string>, n bigint, cost decimal(38, 2)")
        assert "optional string more = 4;" in wider
        assert "repeated string users = 3;" in wider
        with pytest.raises(SchemaRefused, match=r"(?s)registered: .*new: "):
            written("users array<string>, n string, cost decimal(38, 2)")


@pytest.mark.rotated
def test_a_changelog_without_a_registry_restores_and_prints(cluster, broker, lake, records) -> None:
    cluster.create("nosr-clicks", partitions=2)
    clicks = lh.stream("nosr-clicks", key="page string", schema="user string, cost decimal(8, 2)")
    grouped = clicks.group_by("page").agg(n=lh.count(), cost=lh.sum("cost"), users=lh.collect_set("user"))
    totals = grouped.table("nosr_totals")
    published = totals.changes().to_topic("nosr-totals", format="protobuf_nosr", key_format="protobuf_nosr")
    sent = [("a", "u", 1.5), ("b", "v", 2), ("a", "w", 0.25), ("é", "u", -3)]
    produce(
        broker.bootstrap_servers, {}, "nosr-clicks",
        [
            ProducerRecord(page.encode(), json.dumps({"user": user, "cost": cost}).encode(), T + number)
            for number, (page, user, cost) in enumerate(sent)
        ],
    )  # fmt: skip
    first = lake("first")
    first.run(lh.app(published), until="caught_up")
    assert len(records("nosr-totals")) >= 3

    second = lake("second")
    assert second.restore(totals, "nosr-totals") == 3
    produce(broker.bootstrap_servers, {}, "nosr-clicks", [ProducerRecord(b"b", b'{"user": "x", "cost": 1}', T + 9)])
    second.run(lh.app(published), until="caught_up")
    rows = {row.page: (row.n, row.cost, sorted(row.users)) for row in second.read(totals).collect()}
    assert rows == {
        "a": (2, Decimal("1.75"), ["u", "w"]),
        "b": (2, Decimal("3.00"), ["v", "x"]),
        "é": (1, Decimal("-3.00"), ["u"]),
    }

    def printed(declarations: str) -> tuple[str, dict[str, Any]]:
        session = SqlSession(second.settings)
        list(session.run(declarations))
        (answer,) = session.run("PRINT 'nosr-totals' FROM BEGINNING LIMIT 1;")
        ((*_, key, value),) = answer.rows
        return json.loads(str(key))["page"], json.loads(str(value))

    with_topic = "WITH (kafka_topic='nosr-totals', format='PROTOBUF_NOSR')"
    columns = "`page` VARCHAR PRIMARY KEY, `n` BIGINT, `cost` DECIMAL(38, 2), `users` ARRAY<VARCHAR>"
    page, row = printed(f"CREATE TABLE totals ({columns}) {with_topic};")
    assert (row["n"], row["users"]) == ("1", {"a": ["u"], "b": ["v"], "é": ["u"]}[page])
    as_published = printed(
        "CREATE STREAM clicks (`page` VARCHAR KEY, `user` VARCHAR, `cost` DECIMAL(8, 2)) "
        "WITH (kafka_topic='nosr-clicks', value_format='JSON');"
        f"CREATE TABLE totals {with_topic} AS SELECT `page`, COUNT(*) AS `n`, SUM(`cost`) AS `cost`, "
        "COLLECT_SET(`user`) AS `users` FROM clicks GROUP BY `page`;"
    )
    assert as_published == (page, row)
