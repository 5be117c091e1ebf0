"""`lakehouse schema pull` and `check`, and `lakehouse kafka produce --format avro`, with a registry and a broker."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

import lakehouse as lh
from lakehouse.formats.codec.registered import PREFIX_LENGTH, schema_id, with_prefix
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.plan.registered.pinned import pinned_file
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.run.schemas.check import check_schemas
from lakehouse.settings.sections import RegistrySection
from tests.cli.conftest import Command

APP = """
import lakehouse as lh

orders = lh.stream("{topic}", key="id", format="avro", key_format="avro", name="orders")
app = lh.app(orders.latest("current"))
"""
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
CITY, NOTE = {"name": "city", "type": "string"}, {"name": "note", "type": ["null", "string"], "default": None}
FIRST = [CITY, {"name": "amount", "type": AMOUNT}]
Register = Callable[..., int]


def order(fields: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}


@pytest.fixture
def register(registry: EmbeddedRegistry, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    """register(subject, schema): the id of a schema in the registry, which the commands use."""
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", registry.url)
    client = SchemaRegistryClient({"url": registry.url})

    def register(subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        return client.register_schema(subject, Schema(json.dumps(schema), kind, list(references)))

    return register


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.rotated
def test_pull_before_the_application_can_be_loaded_and_again(lakehouse: Command, register: Register, folder: Path):
    register("pull-value", order(FIRST))
    register("pull-key", "long")
    Path("app.py").write_text(APP.format(topic="pull"))
    missing = lakehouse("schema", "check", "--app", "app.py")
    assert missing.code == 2
    assert "`lakehouse schema pull pull` writes it out of the registry" in words(missing.err)
    first = lakehouse("schema", "pull", "pull")
    assert first.out.splitlines() == [
        "schemas/pull-key.avsc: pull-key, version 1: new.",
        "schemas/pull-value.avsc: pull-value, version 1: new.",
    ]
    assert json.loads(pinned_file(folder, "pull", "value").read_text()) == order(FIRST)
    assert lakehouse("schema", "check", "--app", "app.py").code == 0
    again = [json.loads(line) for line in lakehouse("schema", "pull", "--app", "app.py", "--json").out.splitlines()]
    assert [(one["subject"], one["state"]) for one in again] == [("pull-key", "unchanged"), ("pull-value", "unchanged")]

    second_id = register("pull-value", order([*FIRST, NOTE]))
    by_id = ("schema", "pull", "--id", str(second_id))
    assert lakehouse(*by_id).out == f"schemas/id-{second_id}.avsc: schema {second_id}: new.\n"
    assert lakehouse(*by_id).out == f"schemas/id-{second_id}.avsc: schema {second_id}: unchanged.\n"
    assert json.loads((folder / f"schemas/id-{second_id}.avsc").read_text()) == order([*FIRST, NOTE])
    assert "has no schema with the id 99999." in words(lakehouse("schema", "pull", "--id", "99999").err)
    checked = lakehouse("schema", "check", "--app", "app.py")
    assert checked.code == 1
    assert "differs pinned schemas/pull-value.avsc: pull-value, version 2 added note string" in words(checked.out)
    assert "ok declared stream orders, value: pull-value, version 2" in words(checked.out)
    second = lakehouse("schema", "pull", "--app", "app.py")
    assert second.out.splitlines()[1] == "schemas/pull-value.avsc: pull-value, version 2: added note string."
    as_before = json.loads(lakehouse("schema", "check", "--app", "app.py", "--json").out)
    assert as_before["ok"]
    assert [check["problems"] for check in as_before["checks"]] == [[]] * 4
    pinned_file(folder, "pull", "value").write_text(json.dumps(order([{"name": "city", "type": "int"}])))
    assert "added amount decimal(9, 2); added note string; city is string now, was int." in words(
        lakehouse("schema", "pull", "pull").out
    )


def test_pull_into_another_folder_and_of_nothing(lakehouse: Command, register: Register, folder: Path) -> None:
    register("elsewhere-value", order(FIRST))
    Path("apps").mkdir()
    Path("apps/app.py").write_text(APP.format(topic="elsewhere"))
    advice = "`lakehouse schema pull elsewhere --folder apps`"
    assert advice in words(lakehouse("schema", "check", "--app", "apps/app.py").err)
    assert lakehouse("schema", "pull", "elsewhere", "--folder", "apps").code == 0
    pinned = Path("apps/schemas/elsewhere-value.avsc")
    assert pinned.is_file()
    pinned.unlink()
    assert lakehouse("schema", "pull", "elsewhere", "--app", "apps/app.py").code == 0
    assert pinned.is_file()
    absent = lakehouse("schema", "pull", "no-such-topic")
    assert absent.code == 2
    assert "has no schema no-such-topic-key or no-such-topic-value" in words(absent.err)
    assert "expected that of the application's file" in words(lakehouse("schema", "pull", "x", "--folder", "gone").err)
    Path("plain.py").write_text(
        'import lakehouse as lh\napp = lh.app(lh.stream("a", key="k", schema="v int").latest("t"))'
    )
    assert "has no stream in a format with schemas" in words(lakehouse("schema", "pull", "--app", "plain.py").err)
    assert "there is nothing to check" in words(lakehouse("schema", "check", "--app", "plain.py").out)


def test_a_schema_that_can_t_be_read_here_is_not_written(lakehouse: Command, register: Register, folder: Path) -> None:
    register("unread-value", order([{"name": "x", "type": ["string", "long"]}]))
    register("unread-key", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "JSON")
    outcome = lakehouse("schema", "pull", "unread")
    assert outcome.code == 1
    assert "not written, for it can't be read here: unread-value: field 'x': union of" in words(outcome.out)
    assert "expected a schema of Avro, found one of JSON" in words(outcome.out)
    assert not Path("schemas").exists()


def test_a_schema_with_references_is_written_whole(lakehouse: Command, register: Register, folder: Path) -> None:
    register("city", {"type": "record", "name": "City", "namespace": "shop", "fields": [CITY]})
    reference = SchemaReference("shop.City", "city", 1)
    register("parts-value", order([{"name": "place", "type": "shop.City"}, NOTE]), references=[reference])
    assert lakehouse("schema", "pull", "parts").code == 0
    place = {"type": "record", "name": "City", "namespace": "shop", "fields": [CITY]}
    expected = order([{"name": "place", "type": place}, NOTE])
    assert json.loads(pinned_file(folder, "parts", "value").read_text()) == expected


@pytest.mark.parametrize(("strategy", "subject"), [("record", "shop.Named"), ("topic_record", "named-shop.Named")])
def test_subjects_by_records_are_named_once_and_told_by_the_pinned_file_then(
    lakehouse: Command, register: Register, strategy: str, subject: str
) -> None:
    Path("lakehouse.toml").write_text(f'[registry]\nsubject_strategy = "{strategy}"\n')
    unknown = lakehouse("schema", "pull", "named")
    assert unknown.code == 2
    assert f"registry.subject_strategy is '{strategy}': subjects are named by records" in words(unknown.err)
    assert "lakehouse schema pull --subject" in words(unknown.err)
    register(subject, {**order(FIRST), "name": "Named"})
    register("long" if strategy == "record" else "named-long", "long")
    first = lakehouse("schema", "pull", "named", "--subject", subject)
    assert first.out == f"schemas/named-value.avsc: {subject}, version 1: new.\n"
    Path("app.py").write_text(APP.format(topic="named").replace('key="id", format', 'key="id bigint", format'))
    checked = lakehouse("schema", "check", "--app", "app.py")
    assert checked.code == 0
    assert "- declared stream orders, key: no subject: neither the topic nor a pinned file" in words(checked.out)
    key_subject = "long" if strategy == "record" else "named-long"
    keys = lakehouse("schema", "pull", "named", "--key-subject", key_subject).out.splitlines()
    assert keys == [
        f"schemas/named-key.avsc: {key_subject}, version 1: new.",
        f"schemas/named-value.avsc: {subject}, version 1: unchanged.",
    ]
    register(subject, {**order([*FIRST, NOTE]), "name": "Named"})
    assert lakehouse("schema", "check", "--app", "app.py").code == 1
    again = lakehouse("schema", "pull", "--app", "app.py").out.splitlines()
    assert again[1] == f"schemas/named-value.avsc: {subject}, version 2: added note string."
    assert lakehouse("schema", "check", "--app", "app.py").code == 0
    assert "belong to one topic; found 0." in words(lakehouse("schema", "pull", "--subject", "a").err)
    assert "has no schema nowhere." in words(lakehouse("schema", "pull", "other", "--subject", "nowhere").err)


def test_pull_says_what_aliases_and_defaults_do_not_do(lakehouse: Command, register: Register) -> None:
    count = {"name": "n", "type": "int", "default": 0, "doc": "half of a surrogate pair: \ud800"}
    line = {"type": "record", "name": "Line", "fields": [{"name": "size", "type": "int", "default": 1}]}
    lines = {"name": "lines", "type": ["null", {"type": "array", "items": line}], "default": None}
    register("evolved-value", order([{**CITY, "aliases": ["town", "place"]}, count, NOTE, lines]))
    assert lakehouse("schema", "pull", "evolved").out.splitlines() == [
        "schemas/evolved-value.avsc: evolved-value, version 1: new.",
        "  a record in which city is still town or place has a null there.",
        "  a record without n has a null there, and not 0.",
        "  a record without lines.size has a null there, and not 1.",
    ]
    assert (
        "schemas/evolved-value.avsc: evolved-value, version 1: unchanged." in lakehouse("schema", "pull", "evolved").out
    )


def test_a_type_in_itself_is_refused_whatever_is_declared(lakehouse: Command, register: Register) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    register("tree-value", node)
    pulled = lakehouse("schema", "pull", "tree")
    assert pulled.code == 1
    assert "'Node' is a part of itself" in words(pulled.out)
    Path("schemas").mkdir()
    Path("schemas/tree-value.avsc").write_text(json.dumps(node))
    Path("app.py").write_text(APP.format(topic="tree"))
    refused = lakehouse("plan", "--app", "app.py")
    assert refused.code == 2
    assert "No record of such a schema can be read here, whatever columns are declared" in words(refused.err)


def test_a_declaration_that_no_longer_fits_and_one_without_a_schema(lakehouse: Command, register: Register) -> None:
    register("typed-value", order([{"name": "city", "type": "int"}]))
    Path("app.py").write_text(
        "import lakehouse as lh\n"
        'typed = lh.stream("typed", key="id bigint", schema="city string", format="avro", key_format="avro")\n'
        'app = lh.app(typed.latest("current"))\n'
    )
    outcome = lakehouse("schema", "check", "--app", "app.py")
    assert outcome.code == 1
    shown = words(outcome.out)
    assert "differs declared stream typed, value: typed-value, version 1 field city: int, declared string" in shown
    assert 'here: city string registry: {"type": "record", "name": "Order"' in shown
    assert "- declared stream typed, key: typed-key: the registry has no such schema yet." in shown


def test_columns_of_change_events_are_compared_with_the_row_in_the_envelope(
    lakehouse: Command, register: Register
) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "city", "type": "int"}]}
    fields = [{"name": "op", "type": "string"}, {"name": "after", "type": ["null", row]}]
    register("shop.typed-value", {"type": "record", "name": "Envelope", "fields": fields})
    register("shop.typed-key", {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]})
    Path("app.py").write_text(
        "import lakehouse as lh\n"
        'typed = lh.debezium("shop.typed", key="id bigint", schema="city string", format="avro", name="typed")\n'
        'app = lh.app(typed.latest("current"))\n'
    )
    outcome = lakehouse("schema", "check", "--app", "app.py")
    assert outcome.code == 1
    shown = words(outcome.out)
    assert "differs declared stream typed, value: shop.typed-value, version 1 field after: field city: int" in shown
    assert "differs declared stream typed, key: shop.typed-key, version 1 field id: string, declared bigint" in shown


def test_what_is_published_is_compared(registry: EmbeddedRegistry, register: Register, tmp_path: Path) -> None:
    orders = lh.stream("in", key="id bigint", schema="city string, amount decimal(9, 2)")
    totals = orders.group_by("city").agg(n=lh.count(), total=lh.sum("amount")).table("totals")

    def problems(topic: str, sinks_of: lh.Table = totals, *, auto_register: bool = True) -> dict[str, Any]:
        sink = replace(sinks_of.changes().to_topic(topic), format="avro", key_format="avro")
        settings = RegistrySection(tmp_path / "none", url=registry.url, auto_register=auto_register)
        checks = check_schemas(Registry(settings, registry.url), settings, lh.app(sinks_of, sink), tmp_path)
        return {check.name: check.problems or check.note for check in checks}

    new = "the registry has no such schema yet; a run registers it"
    assert problems("out") == {"topic out, key": new, "topic out, value": new}
    total = {"name": "total", "type": ["null", {**AMOUNT, "precision": 19}], "default": None}
    register("out-value", order([{"name": "n", "type": ["null", "long"], "default": None}, total]))
    register("out-key", "string")
    assert problems("out") == {"topic out, key": "", "topic out, value": ""}
    missing = "the registry does not have this schema, and registry.auto_register is false: register it there first"
    assert problems("absent", auto_register=False) == {
        "topic absent, key": (missing,),
        "topic absent, value": (missing,),
    }
    count = {"name": "n", "type": ["null", "long"], "default": None}
    register("less-value", order([count]))
    assert problems("less")["topic less, value"] == ""
    assert problems("less", auto_register=False)["topic less, value"] == (missing,)
    register("less-value", order([count, total]))
    register("less-value", order([count, total, NOTE]))
    assert problems("less", auto_register=False)["topic less, value"] == "", "the registry has it, as an older version"
    register("other-value", order([{"name": "n", "type": "string"}]))
    assert problems("other")["topic other, value"] != ""
    doubled = orders.select("amount * 2 AS twice").latest("doubled")
    assert problems("other", doubled)["topic other, value"].startswith("only Spark can tell the type of twice")


def records(broker: Broker, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [(message.key(), message.value()) for message in consumer.consume(count, timeout=20.0)]
    finally:
        consumer.close()


def read(data: bytes | None, schema: Any) -> Any:
    assert data is not None
    return fastavro.schemaless_reader(io.BytesIO(data[PREFIX_LENGTH:]), fastavro.parse_schema(schema), None)


@pytest.mark.rotated
def test_lines_become_records_in_avro(
    lakehouse: Command, register: Register, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    schema = order(
        [
            *FIRST,
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "raw", "type": ["bytes", "null"]},
        ]
    )
    Path("value.avsc").write_text(json.dumps(schema))
    Path("key.avsc").write_text('"long"')
    Path("orders.jsonl").write_text(
        '{"key": 7, "value": {"city": "Rome", "amount": 12.50, "at": "2026-01-31T12:00:00Z", "raw": "aGk="}}\n'
        '{"key": 7, "value": null}\n'
    )
    line = ("kafka", "produce", "made", "orders.jsonl", "--format", "avro")
    absent = lakehouse(*line, "--schema", "value.avsc")
    assert absent.code == 2
    assert not lakehouse("schema", "pull", "made").out  # nothing was registered for a topic that does not exist
    Cluster(broker.bootstrap_servers).create("made", partitions=1)
    unknown = lakehouse(*line)
    assert unknown.code == 2
    assert "has no schema of the values of topic 'made'. Give one: --schema value.avsc." in words(unknown.err)
    produced = lakehouse(*line, "--schema", "value.avsc", "--key-schema", "key.avsc", "--json")
    facts = json.loads(produced.out)["schemas"]
    assert {name: fact["subject"] for name, fact in facts.items()} == {"value": "made-value", "key": "made-key"}
    by_newest = lakehouse(*line)
    assert "2 records written to topic made, by made-value (schema" in words(by_newest.out)
    row = {"city": "Rome", "amount": Decimal("12.50"), "at": datetime(2026, 1, 31, 12, tzinfo=UTC), "raw": b"hi"}
    for key, value in records(broker, "made", 4)[::2]:
        assert (schema_id(key or b""), schema_id(value or b"")) == (facts["key"]["id"], facts["value"]["id"])
        assert (read(key, "long"), read(value, schema)) == (7, row)
    assert [value for _, value in records(broker, "made", 4)[1::2]] == [None, None]

    Path("bad.jsonl").write_text('{"value": null}\n{"value": {"city": "Rome", "amount": 1.234}}\n')
    bad = lakehouse("kafka", "produce", "made", "bad.jsonl", "--format", "avro")
    assert bad.code == 1
    assert "Line 2: value: field amount: expected decimal(9, 2), found 1.234" in words(bad.err)
    Path("bad.jsonl").write_text('{"key": "x", "value": null}\n')
    assert "Line 1: key: expected long, found 'x'" in words(
        lakehouse("kafka", "produce", "made", "bad.jsonl", "--format", "avro").err
    )


def test_a_schema_that_may_not_be_registered_or_is_none(
    lakehouse: Command, register: Register, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_AUTO_REGISTER", "false")
    Path("value.avsc").write_text(json.dumps(order(FIRST)))
    Path("lines.jsonl").write_text('{"value": {"city": "Rome", "amount": 1}}')
    line = (
        "kafka",
        "produce",
        "kept",
        "lines.jsonl",
        "--partitions",
        "1",
        "--format",
        "avro",
        "--schema",
        "value.avsc",
    )
    refused = lakehouse(*line)
    assert refused.code == 2
    assert "registry.auto_register is false. Register it there first." in words(refused.err)
    id = register("kept-value", order(FIRST))
    assert json.loads(lakehouse(*line, "--json").out)["schemas"] == {"value": {"subject": "kept-value", "id": id}}
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_SUBJECT_STRATEGY", "topic_record")
    id = register("kept-shop.Order", order(FIRST))
    assert json.loads(lakehouse(*line, "--json").out)["schemas"] == {"value": {"subject": "kept-shop.Order", "id": id}}
    assert "subjects are named by records" in words(lakehouse(*line[:-2]).err)
    Path("value.avsc").write_text("{}")
    assert "value.avsc: expected a type, found null. Expected a schema of Avro, in JSON." in words(lakehouse(*line).err)
    assert "Expected a file with a schema of Avro" in words(lakehouse(*line[:-1], "gone.avsc").err)
    assert "--schema names a schema; expected it with --format avro, protobuf or json_sr." in words(
        lakehouse("kafka", "produce", "kept", "lines.jsonl", "--schema", "value.avsc").err
    )


def test_a_schema_that_was_registered_later_is_learned(
    lakehouse: Command, register: Register, registry: EmbeddedRegistry, folder: Path
) -> None:
    id = register("later-value", order(FIRST))
    Path("app.py").write_text(APP.format(topic="later").replace('key="id"', 'key="id bigint", schema="city string"'))
    schemas = LakeSchemas(Layout(str(folder / "lake")))
    schemas.keep("later", {"value": {id: None, 999_999: None, 777_777: WriterSchema("AVRO", '"int"')}}, 3)
    retry = ("schema", "retry", "--app", "app.py", "--lake", "lake")
    told = words(lakehouse(*retry).out)
    assert f"topic later, value: known now: {id}; still unknown: 999999." in told
    assert "lakehouse repair backfill current --app app.py" in told
    schemas.reload("later")
    known = schemas.find("later", "value")
    assert json.loads(known[id].text) == order(FIRST)
    assert known[777_777].text == '"int"', "what is known stays"
    assert schemas.tick("later", ["value"]) == 3
    assert schemas.unknown_ids("later", "value") == {999_999}
    again = json.loads(lakehouse(*retry, "--json").out)["parts"]
    assert again == [{"topic": "later", "part": "value", "learned": [], "unknown": [999_999], "tables": []}]


def test_nothing_is_learned_while_the_registry_is_away(
    lakehouse: Command, register: Register, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try names the tables of all topics: who learned a schema before that would have named none of them."""
    from lakehouse.errors import RegistryUnavailable
    from lakehouse.run.schemas import retry

    id = register("near-value", order(FIRST))
    schema = 'key="id bigint", schema="city string"'
    near, far = (APP.format(topic=topic).replace('key="id"', schema).splitlines()[3] for topic in ("near", "far"))
    far = far.replace("orders", "others")
    Path("the app.py").write_text(
        f'import lakehouse as lh\n{near}\n{far}\napp = lh.app(orders.latest("a"), others.latest("b"))\n'
    )
    schemas = LakeSchemas(Layout(str(folder / "lake")))
    for topic, unknown_id in (("near", id), ("far", 999_999)):
        schemas.keep(topic, {"value": {unknown_id: None}}, 3)
    command = ("schema", "retry", "--app", "the app.py", "--lake", "lake")

    class Away(retry.SchemaLookUp):
        def __call__(self, id: int) -> WriterSchema | None:
            if id == 999_999:
                raise RegistryUnavailable("it is away")
            return super().__call__(id)

    with monkeypatch.context() as patch:
        patch.setattr(retry, "SchemaLookUp", Away)
        assert "it is away" in lakehouse(*command).err
    assert "lakehouse repair backfill a --app 'the app.py'" in words(lakehouse(*command).out)


CLICK = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "shop.Click", "type": "object",
         "properties": {"user": {"type": "string"}}, "required": ["user"]}  # fmt: skip


def test_lines_become_records_behind_the_id_of_their_json_schema(
    lakehouse: Command,
    register: Register,
    registry: EmbeddedRegistry,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    Path("value.json").write_text(json.dumps(CLICK))
    Path("clicks.jsonl").write_text(
        '{"key": "a", "value": {"user": "ann", "cost": 12.50}}\n{"key": "a", "value": null}\n'
    )
    line = ("kafka", "produce", "clicked", "clicks.jsonl", "--format", "json_sr", "--partitions", "1")
    produced = lakehouse(*line, "--schema", "value.json", "--json")
    id = json.loads(produced.out)["schemas"]["value"]["id"]
    assert lakehouse(*line).code == 0  # by the newest
    assert (
        records(broker, "clicked", 4) == [(b"a", with_prefix(id, b'{"user": "ann", "cost": 12.50}')), (b"a", None)] * 2
    )
    Path("clicks.jsonl").write_text('{"value": {"cost": 1}}\n')
    unfit = lakehouse(*line)
    assert unfit.code == 1
    assert 'Line 1: value: the whole: expected what /required in the schema says, found that "user" is' in words(
        unfit.err
    )
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_SUBJECT_STRATEGY", "record")
    named = lakehouse(*line, "--schema", "value.json")
    assert named.code == 1  # the line does not fit, and its schema is registered under its title
    assert SchemaRegistryClient({"url": registry.url}).get_latest_version("shop.Click").schema_id == id
    Path("value.json").write_text("{")
    assert "value.json: expected a JSON Schema that can be used" in words(
        lakehouse(*line, "--schema", "value.json").err
    )
    monkeypatch.delenv("LAKEHOUSE_REGISTRY_SUBJECT_STRATEGY")
    wrong_kind = lakehouse("kafka", "produce", "clicked", "clicks.jsonl", "--format", "avro")
    assert "clicked-value, version 1: expected a schema of Avro, found one of JSON" in words(wrong_kind.err)
