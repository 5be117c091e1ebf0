"""Topics in JSON Schema: from another producer to tables without asking the registry, and published for others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

import lakehouse as lh
from lakehouse.errors import SchemaRefused
from lakehouse.formats.codec.registered import PREFIX_LENGTH, schema_id, with_prefix
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.run.lake import Lake
from lakehouse.run.sql.session import SqlSession

T = 1_700_000_000_000
AWAY = "http://127.0.0.1:9"  # the port of the service discard: nobody listens
CLICK = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Click", "type": "object",
    "properties": {"user": {"type": "string"}, "cost": {"type": "number"}}, "required": ["user"],
}  # fmt: skip


@pytest.fixture
def named(lake: Callable[..., Lake]) -> Callable[[str, str], Lake]:
    """named(name, url): a lake of this name with a registry at an address."""

    def make(name: str, url: str) -> Lake:
        settings = lake(name).settings
        return Lake(settings=replace(settings, registry=replace(settings.registry, url=url)))

    return make


@pytest.mark.rotated
def test_a_topic_becomes_a_table_and_its_changelog_is_read_by_others(
    cluster: Any, broker: Any, registry: EmbeddedRegistry, named: Callable[[str, str], Lake], records: Any
) -> None:
    cluster.create("sr-clicks", partitions=1)
    client = SchemaRegistryClient({"url": registry.url})
    id = client.register_schema("sr-clicks-value", Schema(json.dumps(CLICK), "JSON"))
    rows = [("a", {"user": "u", "cost": 1.5}), ("b", {"user": "v"}), ("a", {"user": "w", "cost": -0.25})]
    clicks = [
        ProducerRecord(page.encode(), with_prefix(id, json.dumps(row).encode()), T + number)
        for number, (page, row) in enumerate(rows)
    ]
    produce(broker.bootstrap_servers, {}, "sr-clicks", [*clicks, ProducerRecord(b"a", b"{}", T)])

    stream = lh.stream("sr-clicks", key="page string", schema="user string, cost decimal(8, 2)", format="json_sr")
    totals = stream.group_by("page").agg(n=lh.count(), cost=lh.sum("cost"), last=lh.max("rowtime")).table("sr_totals")
    reading = named("reading", AWAY)  # reading asks no registry
    reading.run(lh.app(totals), until="caught_up")
    assert {row.page: row.n for row in reading.read(totals).collect()} == {"a": 2, "b": 1}
    (reason,) = reading.query("SELECT reason FROM quarantine.sr_clicks").rows[0]
    assert reason.endswith("found 0x7b7d: it looks like JSON")

    app = lh.app(totals.changes().to_topic("sr-totals", format="json_sr", key_format="json_sr"))
    first = named("first", registry.url)
    first.run(app, until="caught_up")
    latest_key, latest_value = (client.get_latest_version(f"sr-totals-{part}") for part in ("key", "value"))
    table: dict[str, Any] = {}
    for message in records("sr-totals"):
        assert (schema_id(message.key()), schema_id(message.value())) == (latest_key.schema_id, latest_value.schema_id)
        key, table_row = (json.loads(data[PREFIX_LENGTH:]) for data in (message.key(), message.value()))
        table[key["page"]] = table_row
    for latest, row in ((latest_key, key), (latest_value, table_row)):
        assert latest.schema.schema_type == "JSON"
        assert json.loads(latest.schema.schema_str)["properties"].keys() == row.keys()
    assert {page: (row["n"], row["cost"]) for page, row in table.items()} == {"a": (2, 1.25), "b": (1, 0)}
    assert named("second", AWAY).restore(totals, "sr-totals") == 2

    more = stream.group_by("page").agg(n=lh.count(), users=lh.collect_list("user")).table("sr_more")
    with pytest.raises(SchemaRefused, match=r"(?s)subject sr-totals-value: .*registered: .*new: "):
        named("third", registry.url).run(
            lh.app(more.changes().to_topic("sr-totals", format="json_sr", key_format="json_sr")), until="caught_up"
        )


@pytest.mark.rotated
def test_sql_inserts_prints_and_selects(
    cluster: Any, registry: EmbeddedRegistry, named: Callable[[str, str], Lake]
) -> None:
    cluster.create("sr-visits", partitions=1)
    lake = named("sql", registry.url)
    session = SqlSession(lake.settings)
    session.script.run(
        "CREATE STREAM visits (id BIGINT KEY, city VARCHAR, at TIMESTAMP) WITH (KAFKA_TOPIC='sr-visits', "
        "FORMAT='JSON_SR', VALUE_SCHEMA_FULL_NAME='shop.Visit');"
        "CREATE TABLE json_per_city WITH (FORMAT='JSON') AS SELECT city, COUNT(*) AS n FROM visits GROUP BY city;"
    )
    list(session.run("INSERT INTO visits (id, city, at) VALUES (1, 'Rome', '2026-01-31T12:00:00.5');"))
    schema = json.loads(
        SchemaRegistryClient({"url": registry.url}).get_latest_version("sr-visits-value").schema.schema_str
    )
    assert (schema["title"], list(schema["properties"])) == ("shop.Visit", ["CITY", "AT"])
    lake.run(session.script.app(), until="caught_up")

    def asked(statement: str) -> list[tuple[object, ...]]:
        (answer,) = session.run(statement)
        return list(answer.rows)

    assert asked("SELECT * FROM json_per_city;") == [("Rome", 1)]
    (_, _, _, key, value), *_ = asked("PRINT 'sr-visits' FROM BEGINNING LIMIT 1;")
    assert (key, json.loads(str(value))) == ("1", {"CITY": "Rome", "AT": 1769860800500})


@pytest.mark.rotated
def test_values_that_do_not_fit_their_schema_go_to_the_quarantine_also_without_the_registry(
    cluster: Any, broker: Any, registry: EmbeddedRegistry, named: Callable[[str, str], Lake]
) -> None:
    cluster.create("sr-valid", partitions=1)
    client = SchemaRegistryClient({"url": registry.url})
    id = client.register_schema("sr-valid-value", Schema(json.dumps(CLICK), "JSON"))
    values = [{"user": "u", "cost": 1.5}, {"cost": 2}, {"user": "v"}]
    clicks = [
        ProducerRecord(b"%d" % number, with_prefix(id, json.dumps(row).encode()), T + number)
        for number, row in enumerate(values)
    ]
    produce(broker.bootstrap_servers, {}, "sr-valid", [*clicks, ProducerRecord(b"9", with_prefix(id, b"{"), T)])
    stream = lh.stream("sr-valid", key="page string", schema="user string", format="json_sr", validate=True)
    table = stream.latest("sr_valid")
    app = lh.app(table)
    lake = named("valid", registry.url)
    lake.run(app, until="caught_up")
    kept = Lake(settings=replace(lake.settings, registry=replace(lake.settings.registry, url=AWAY)))
    assert kept.backfill(app, table).differing.equal
    assert kept.query('SELECT page, "user" FROM sr_valid ORDER BY page').rows == [("0", "u"), ("2", "v")]
    reasons = [row[0] for row in kept.query('SELECT reason FROM quarantine.sr_valid ORDER BY "offset"').rows]
    assert reasons[0] == (
        f'value: schema {id}: the whole: expected what /required in the schema says, found that "user" is a required '
        "property"
    )
    assert reasons[1].startswith("value: expected a JSON object")
