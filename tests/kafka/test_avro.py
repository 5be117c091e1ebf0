"""A topic in Avro, from another producer through a real broker and registry to tables; and without the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import lakehouse as lh
from lakehouse.errors import ConfigError, RegistryUnavailable, SchemaRefused, SqlError
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.registry.opening import open_registry
from lakehouse.run.explain.capture import capture as captured
from lakehouse.run.lake import Lake
from lakehouse.run.schemas.written_schemas import with_registered_id
from lakehouse.run.sql.session import SqlSession
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


@pytest.mark.rotated
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


SQL = """
CREATE STREAM visits (id BIGINT KEY, city VARCHAR, at TIMESTAMP)
  WITH (KAFKA_TOPIC='avro-visits', FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME='shop.Visit');
CREATE TABLE per_city WITH (FORMAT='JSON') AS SELECT city, COUNT(*) AS n FROM visits GROUP BY city;
"""


@pytest.mark.rotated
def test_sql_inserts_prints_and_selects(cluster, registry, with_registry) -> None:
    cluster.create("avro-visits", partitions=1)
    lake = with_registry()
    session = SqlSession(lake.settings)
    session.script.run(SQL)
    inserted = "INSERT INTO visits (id, city, at) VALUES ({}, '{}', '2026-01-31T12:00:00.5');"
    list(session.run(inserted.format(1, "Rome") + inserted.format(2, "Rome")))
    schema = SchemaRegistryClient({"url": registry.url}).get_latest_version("avro-visits-value").schema
    assert json.loads(schema.schema_str)["namespace"] == "shop"
    lake.run(session.script.app(), until="caught_up")

    def asked(statement: str) -> list[tuple[object, ...]]:
        (answer,) = session.run(statement)
        return sorted(answer.rows)

    assert asked("SELECT * FROM per_city;") == [("Rome", 2)]
    assert asked("SELECT id, city FROM visits WHERE id = 2;") == [(2, "Rome")]
    session.script.settings["auto.offset.reset"] = "earliest"
    assert asked("SELECT id, UNIX_TIMESTAMP(at) AS ms FROM visits EMIT CHANGES LIMIT 1;") == [(1, 1769860800500)]
    (_, _, _, key, value), *_ = asked("PRINT 'avro-visits' FROM BEGINNING LIMIT 1;")
    assert (key, json.loads(str(value))) == ("1", {"CITY": "Rome", "AT": "2026-01-31T12:00:00.500Z"})

    settings = lake.settings
    closed = SqlSession(replace(settings, registry=replace(settings.registry, auto_register=False)), session.script)
    list(closed.run(inserted.format(3, "Oslo")))
    more = "CREATE STREAM more (id BIGINT KEY, n INT) WITH (KAFKA_TOPIC='avro-visits', FORMAT='AVRO');"
    with pytest.raises(SqlError, match=r"auto_register is false\. Register it under the subject avro-visits-value"):
        list(closed.run(more + "INSERT INTO more (id, n) VALUES (1, 2);"))


@pytest.mark.rotated
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


@pytest.mark.rotated
def test_a_changelog_in_avro_is_read_by_others_and_restores_the_table(cluster, broker, registry, lake, records) -> None:
    cluster.create("avro-clicks", partitions=2)
    clicks = lh.stream("avro-clicks", key="page string", schema="user string, cost decimal(8, 2)")
    totals = clicks.group_by("page").agg(n=lh.count(), cost=lh.sum("cost")).table("avro_totals")
    app = lh.app(totals.changes().to_topic("avro-totals", format="avro", key_format="avro"))
    clicked = [
        ProducerRecord(page.encode(), json.dumps({"user": "u", "cost": cost}).encode(), T + number)
        for number, (page, cost) in enumerate([("a", 1.5), ("b", 2), ("a", 0.25), ("a", -3), ("c", 7)])
    ]
    produce(broker.bootstrap_servers, {}, "avro-clicks", clicked)

    def named(name: str, **section: Any) -> Lake:
        settings = lake(name).settings
        return Lake(settings=replace(settings, registry=replace(settings.registry, url=registry.url, **section)))

    with pytest.raises(ConfigError, match=r"auto_register is false\. Register it under the subject avro-totals-"):
        named("careful", auto_register=False).run(app, until="caught_up")
    first = named("first")
    first.run(app, until="caught_up")
    client = SchemaRegistryClient({"url": registry.url})
    read_key, read_value = AvroDeserializer(client), AvroDeserializer(client)
    table: dict[str, Any] = {}
    for message in records("avro-totals"):
        key = read_key(message.key(), SerializationContext("avro-totals", MessageField.KEY))
        table[key] = read_value(message.value(), SerializationContext("avro-totals", MessageField.VALUE))
    expected = {"a": {"n": 3, "cost": Decimal("-1.25")}, "b": {"n": 1, "cost": Decimal("2.00")}}
    assert table == {**expected, "c": {"n": 1, "cost": Decimal("7.00")}}
    assert json.loads(client.get_latest_version("avro-totals-value").schema.schema_str)["name"] == "avro_totals_value"

    second = named("second")
    assert second.restore(totals, "avro-totals") == 3
    assert {row.page: (row.n, row.cost) for row in second.read(totals).collect()} == {
        page: (row["n"], row["cost"]) for page, row in table.items()
    }
    produce(broker.bootstrap_servers, {}, "avro-clicks", [ProducerRecord(b"b", b'{"cost": 1}', T + 9)])
    second.run(app, until="caught_up")
    assert {row.page: row.n for row in second.read(totals).collect()} == {"a": 3, "b": 2, "c": 1}

    section = second.settings.registry
    for schema in ("n bigint, cost string", "n bigint, cost decimal(20, 4)", "n string, cost decimal(18, 2)"):
        other_columns = parse_schema(schema, "test")
        with closing(open_registry(section)) as opened, pytest.raises(SchemaRefused, match=r"(?s)registered: .*new: "):
            with_registered_id(opened, section, "avro-totals", "value", "avro", other_columns)
