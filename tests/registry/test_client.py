"""The client on a real registry: ids, versions, references, compatibility, and what is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.errors import ConfigError, RegistryUnavailable, SchemaRefused
from lakehouse.registry.client import Registry
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.registry.opening import open_registry
from lakehouse.registry.schemas import RegisteredReference, RegisteredSchema
from lakehouse.settings.sections import RegistrySection

PROTOBUF = 'syntax = "proto3";\nmessage Order { int32 id = 1; }\n'
JSON_SCHEMA = '{"type": "object", "properties": {"id": {"type": "integer"}}}'


def record(name: str, **fields: object) -> str:
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}
    )


OPTIONAL = json.dumps(
    {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"], "default": None},
    ]}
)  # fmt: skip


def test_a_schema_is_registered_once_and_comes_back_by_its_id(client: Registry, subject: str) -> None:
    text = record("R", a="int")
    number = client.register(subject, text, "AVRO")
    assert client.register(subject, text, "AVRO") == number
    assert client.register(f"{subject}-2", text, "AVRO") == number, "an id is of a text, not of a subject"
    schema = RegisteredSchema(number, "AVRO", text)
    assert client.schema_by_id(number) == schema
    assert client.schema_by_id(number, subject) == schema
    assert client.latest(subject) == (1, schema)
    assert client.lookup(subject, text, "AVRO") == number
    next_number = client.register(subject, OPTIONAL, "AVRO")
    assert client.latest(subject) == (2, RegisteredSchema(next_number, "AVRO", OPTIONAL))


@pytest.mark.parametrize(("kind", "text"), [("PROTOBUF", PROTOBUF), ("JSON", JSON_SCHEMA)])
def test_other_kinds(client: Registry, subject: str, kind: str, text: str) -> None:
    number = client.register(subject, text, kind)
    assert client.schema_by_id(number) == RegisteredSchema(number, kind, text)
    assert client.lookup(subject, text, kind) == number
    assert client.check_compatible(subject, text, kind) == []


def test_what_is_unknown_is_none(client: Registry, subject: str) -> None:
    text = record("R", a="int")
    assert client.schema_by_id(2_000_000_000) is None
    assert client.schema_by_id(2_000_000_000, subject) is None
    assert client.latest(subject) is None
    assert client.lookup(subject, text, "AVRO") is None
    client.register(subject, text, "AVRO")
    assert client.lookup(subject, OPTIONAL, "AVRO") is None


def test_a_deleted_subject_is_unknown_at_once(client: Registry, subject: str) -> None:
    text = record("R", a="int")
    client.register(subject, text, "AVRO")
    client._client.delete_subject(subject)
    assert client.lookup(subject, text, "AVRO") is None
    assert client.latest(subject) is None


def test_an_incompatible_schema_is_refused(client: Registry, subject: str) -> None:
    assert client.check_compatible(subject, record("R", a="int"), "AVRO") == [], "the subject is new"
    client.register(subject, record("R", a="int"), "AVRO")
    worse = record("R", a="int", b="string")
    assert client.check_compatible(subject, OPTIONAL, "AVRO") == []
    reasons = client.check_compatible(subject, worse, "AVRO")
    assert len(reasons) == 1
    assert subject in reasons[0]
    with pytest.raises(SchemaRefused, match=f"{subject}.*ncompatible"):
        client.register(subject, worse, "AVRO")
    assert client.lookup(subject, worse, "AVRO") is None


@pytest.mark.parametrize(("kind", "text"), [("AVRO", "{"), ("AVRO", ""), ("PROTOBUF", "syntax = 3"), ("JSON", "{")])
def test_a_text_that_is_no_schema_is_refused(client: Registry, subject: str, kind: str, text: str) -> None:
    with pytest.raises(SchemaRefused, match=f"{subject}.*valid schema"):
        client.register(subject, text, kind)
    assert client.latest(subject) is None


def test_an_unknown_kind_is_refused_before_it_is_sent(client: Registry, subject: str) -> None:
    with pytest.raises(SchemaRefused, match=r"'XML'.*AVRO, PROTOBUF, JSON"):
        client.register(subject, "<schema/>", "XML")


def refer(client: Registry, subject: str, text: str, *names: tuple[str, str]) -> int:
    """Register a schema with references: a name, and the subject whose first version it stands for."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    references = [SchemaReference(name, target, 1) for name, target in names]
    return client._client.register_schema(subject, Schema(text, "AVRO", references))


def test_references_are_resolved_and_what_they_need_comes_first(client: Registry, subject: str) -> None:
    """lines -> item -> money, and lines -> money: money is needed twice."""
    money, item, order = f"{subject}-money", f"{subject}-item", f"{subject}-order"
    texts = [record("money", amount="int"), record("item", price="money"), record("lines", one="item", total="money")]
    client.register(money, texts[0], "AVRO")
    refer(client, item, texts[1], ("money", money))
    number = refer(client, order, texts[2], ("item", item), ("money", money))
    money_reference = RegisteredReference("money", money, 1, texts[0])
    item_reference = RegisteredReference("item", item, 1, texts[1], (money_reference,))
    schema = client.schema_by_id(number)
    assert schema == RegisteredSchema(number, "AVRO", texts[2], (item_reference, money_reference))
    assert schema.dependencies() == (money_reference, item_reference)
    assert client.latest(order) == (1, schema)


@pytest.mark.rotated
def test_a_registry_that_went_is_unavailable_and_a_known_id_is_still_there(
    tmp_path: Path, section: Callable[..., RegistrySection]
) -> None:
    embedded = EmbeddedRegistry(tmp_path)
    embedded.start()
    opened = open_registry(section(folder=tmp_path))
    opened.check_reachable()
    number = opened.register("s", record("R", a="int"), "AVRO")
    known = opened.schema_by_id(number)
    url = embedded.url
    embedded.stop()
    assert opened.schema_by_id(number) == known
    requests: list[Callable[[], object]] = [
        opened.check_reachable, lambda: opened.schema_by_id(number + 1), lambda: opened.latest("s"),
        lambda: opened.lookup("s", OPTIONAL, "AVRO"), lambda: opened.register("s", OPTIONAL, "AVRO"),
        lambda: opened.check_compatible("s", OPTIONAL, "AVRO"),
    ]  # fmt: skip
    for request in requests:
        with pytest.raises(RegistryUnavailable, match=f"{url}.*refused"):
            request()
    with pytest.raises(RegistryUnavailable, match="`lakehouse registry up`"):
        open_registry(section(folder=tmp_path))


def test_without_the_extra_the_error_names_it(
    section: Callable[..., RegistrySection], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(ConfigError, match=r"pip install 'lakehouse\[registry\]'"):
        open_registry(section(url="http://127.0.0.1:9"))
