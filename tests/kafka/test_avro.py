"""A topic in Avro, from another producer through a real broker and registry to tables; and without the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import lakehouse as lh
from lakehouse.errors import RegistryUnavailable
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.run.explain.capture import capture as captured
from lakehouse.run.lake import Lake
from lakehouse.spark.silver import query, schema_ticks

T = 1_700_000_000_000
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIRST = [{"name": "city", "type": "string"}, {"name": "amount", "type": ["null", AMOUNT], "default": None}]
SECOND = [*FIRST, {"name": "note", "type": ["null", "string"], "default": None}]
AWAY = "http://127.0.0.1:9"  # the port of the service discard: nobody listens


@pytest.fixture
def writer(registry: EmbeddedRegistry, broker: Any) -> Callable[..., Callable[..., None]]:
    """writer(topic, fields): a function that sends a row for an id, as Confluent's serializer writes both."""
    client = SchemaRegistryClient({"url": registry.url})

    def serializer(schema: Any) -> AvroSerializer:
        return AvroSerializer(client, json.dumps(schema))

    def make(topic: str, fields: list[Any]) -> Callable[..., None]:
        write_key = serializer("long")
        write_value = serializer({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})

        def send(id: int, **row: Any) -> None:
            key = write_key(id, SerializationContext(topic, MessageField.KEY))
            value = write_value(row, SerializationContext(topic, MessageField.VALUE)) if row else None
            produce(broker.bootstrap_servers, {}, topic, [ProducerRecord(key, value, T)])

        return send

    return make


@pytest.fixture
def with_registry(lake: Callable[..., Lake], registry: EmbeddedRegistry) -> Callable[..., Lake]:
    def make(url: str = "") -> Lake:
        settings = lake().settings
        return Lake(settings=replace(settings, registry=replace(settings.registry, url=url or registry.url)))

    return make


def declared(topic: str) -> tuple[lh.App, lh.Table]:
    schema = "city string, amount decimal(12, 2), note string"
    orders = lh.stream(topic, key="id bigint", schema=schema, format="avro", key_format="avro")
    table = orders.latest("orders")
    return lh.app(table, orders.group_by("city").agg(total=lh.sum("amount")).table("totals")), table


def rows(lake: Lake, table: lh.Table) -> dict[int, tuple[Any, ...]]:
    return {row.id: (row.city, row.amount, row.note) for row in lake.read(table).collect()}


def reasons(lake: Lake, stream: str) -> list[str]:
    found = lake.query(f'SELECT reason FROM quarantine.{stream} ORDER BY "offset"').rows
    return [row[0] for row in found]


def test_rows_of_two_writers_reach_the_tables_and_rebuild_without_the_registry(
    cluster, broker, writer, with_registry, monkeypatch
) -> None:
    monkeypatch.setattr(schema_ticks, "UNKNOWN_SECONDS", 1.0)
    cluster.create("avro-orders", partitions=1)
    app, orders = declared("avro-orders")
    send_first, send_second = writer("avro-orders", FIRST), writer("avro-orders", SECOND)
    send_first(1, city="Rome", amount=Decimal("12.50"))
    send_first(2, city="Oslo", amount=None)
    send_second(1, city="Rome", amount=Decimal("-0.05"), note="é")
    send_second(3, city="Bonn", amount=Decimal("1.00"), note=None)
    send_first(3)
    for value in (b"{}", b"\0\x7f\xff\xff\xff\x02", b"\0\0\0\0\1"):
        produce(broker.bootstrap_servers, {}, "avro-orders", [ProducerRecord(None, value, T)])
    lake = with_registry()
    lake.run(app, until="caught_up")
    expected = {1: ("Rome", Decimal("-0.05"), "é"), 2: ("Oslo", None, None)}
    assert rows(lake, orders) == expected
    bad = reasons(lake, "avro_orders")
    assert bad[0].endswith("found 0x7b7d: it looks like JSON")
    assert bad[1] == "value: schema 2147483647: the registry has no schema of that id"
    assert bad[2].startswith("value: schema 1: ")
    schemas = LakeSchemas(Layout(lake.settings.lake.path))
    assert len(schemas.find("avro-orders", "value")) >= 2
    assert schemas.unknown_ids("avro-orders", "value") == {2147483647}
    assert lake.audit(app, orders, deep=True).ok

    elsewhere = with_registry(AWAY)
    assert elsewhere.backfill(app, orders).differing.equal
    assert rows(elsewhere, orders) == expected
    assert [step.did for step in elsewhere.explain(orders, "1")[0].steps] == ["inserted", "updated"]
    scenario = captured(Layout(lake.settings.lake.path), app, "app:app", orders, "1", None)
    assert [line["value"] for line in json.loads(scenario.text, parse_float=str)["inputs"]] == [
        {"city": "Rome", "amount": "12.50", "note": None},
        {"city": "Rome", "amount": "-0.05", "note": "é"},
    ]


def test_while_the_registry_is_away_bronze_and_other_topics_go_on(
    cluster, broker, writer, with_registry, monkeypatch
) -> None:
    monkeypatch.setattr(query, "PATIENCE_SECONDS", 2.0)
    for topic in ("avro-away", "json-beside"):
        cluster.create(topic, partitions=1)
    _, orders = declared("avro-away")
    words = lh.stream("json-beside", key="word string", schema="n bigint").latest("words")
    app = lh.app(orders, words)
    writer("avro-away", FIRST)(1, city="Rome", amount=Decimal("12.50"))
    produce(broker.bootstrap_servers, {}, "json-beside", [ProducerRecord(b"a", b'{"n": 1}', T)])
    heard: list[Any] = []
    away = with_registry(AWAY)
    with pytest.raises(RegistryUnavailable, match=r"topic 'avro-away': .* Bronze has all records; orders waits"):
        away.run(app, until="caught_up", listen=heard.append)
    assert [event.details["readers"] for event in heard if event.kind == "waiting"] == [["orders"]]
    assert away.read(words).count() == 1
    assert away.query('SELECT count(*) FROM bronze."avro-away"').rows == [(1,)]
    lake = with_registry()
    lake.run(app, until="caught_up")
    assert rows(lake, orders) == {1: ("Rome", Decimal("12.50"), None)}
