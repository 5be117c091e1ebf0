"""A declaration that is proposed for a topic: it can be pasted, and reads what it says that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.errors import ConfigError, NeedsSpark
from lakehouse.formats.codec.registered import with_prefix
from lakehouse.formats.decode import decode_record
from lakehouse.ksql.script import Script
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.run.infer.proposal import Proposal, propose
from lakehouse.semantics.record import Record

BEGIN = 1_769_860_800_000  # 2026-01-31T12:00Z


def records(values: Iterable[Any], keys: Iterable[bytes | None] | None = None, topic: str = "orders") -> list[Record]:
    """The records of these values: bytes, None, or what is written as JSON; a minute apart."""
    datas = [item if item is None or isinstance(item, bytes) else json.dumps(item).encode() for item in values]
    all_keys = [b"k%d" % number for number in range(len(datas))] if keys is None else list(keys)
    return [
        Record(topic, "", 0, number, BEGIN + number * 60_000, key, data, 1, number)
        for number, (key, data) in enumerate(zip(all_keys, datas, strict=True))
    ]


def pasted(text: str) -> Stream:
    names: dict[str, Any] = {}
    exec(text, names)
    (stream,) = (value for value in names.values() if isinstance(value, Stream))
    return stream


def check(proposal: Proposal, sent: list[Record]) -> None:
    """Both texts declare; the one in Python refuses just the records that the proposal counts."""
    source = pasted(proposal.python).source
    assert isinstance(source, Source)
    if proposal.sql:
        script = Script()
        script.run(proposal.sql)
        assert len(script.catalog.entries) == 1
    else:
        assert any("by hand" in note for note in proposal.notes)
    try:
        bad = model.run(App((), (), (source,)), sent, decode_record).quarantine[source.name]
    except NeedsSpark:
        return
    assert sum(item.records for item in proposal.unread) == len(bad)


def types(proposal: Proposal) -> dict[str, str]:
    return {column.field: column.type.text for column in proposal.columns if not column.is_key}


def test_each_type_has_its_evidence() -> None:
    values = [
        {
            "id": n, "amount": n + 0.25, "big": 10**20 + n, "x": n / 7, "at": f"2026-01-31T12:{n:02d}:00Z",
            "day": "2026-01-31", "city": f"c{n}", "digits": f"2026013{n % 2}", "ok": n % 2 == 0, "none": None,
            "home": {"zip": n, "street name": "x"}, "tags": ["a", None], "lines": [{"n": 1.5}], "empty": {},
            "by_day": {f"d{n}": n, **{f"d{n + m}": m for m in range(1, 5)}}, "ms": BEGIN + n, "any": [n, "x"][n % 2],
            **({"seldom": n} if n < 3 else {}),
        }
        for n in range(60)
    ]  # fmt: skip
    sent = records(values)
    proposal = propose("orders", sent)
    assert types(proposal) == {
        "id": "bigint", "amount": "decimal(10, 2)", "big": "decimal(38, 0)", "x": "double", "at": "timestamp",
        "day": "date", "city": "string", "digits": "string", "ok": "boolean", "none": "string",
        "home": "struct<zip: bigint, street name: string>", "tags": "array<string>",
        "lines": "array<struct<n: decimal(10, 1)>>", "empty": "map<string, string>", "by_day": "map<string, bigint>",
        "ms": "bigint", "any": "string", "seldom": "bigint",
    }  # fmt: skip
    evidence = {column.field: column.evidence for column in proposal.columns}
    assert evidence["seldom"] == "in 3 of 60; 3 numbers"
    assert evidence["at"] == "60 texts; 60 of 60 texts are ISO times"
    assert evidence["ms"].endswith("as milliseconds since 1970 they lie between 2000 and 2100")
    assert evidence["any"] == "30 numbers, 30 texts"
    assert not proposal.unread
    assert 'event_time="at"' in proposal.python
    assert "TIMESTAMP='at', TIMESTAMP_FORMAT='yyyy-MM-dd''T''HH:mm:ssX'" in proposal.sql
    check(proposal, sent)


@pytest.mark.parametrize(
    ("numbers", "type"),
    [
        (["12345678901234567.89"] * 30, "decimal(21, 2)"),
        ([f"{'9' * 35}.25"] * 30, "decimal(38, 2)"),
        ([f"{'9' * 37}.25"] * 30, "double"),
        (["9007199254740993"] * 30 + ["1e3"], "bigint"),
        (["9007199254740993"] * 30 + ["1e3"] * 2, "double"),
        (['"2026-01-31"'] * 99 + ['"2026-01-31T12:00:01Z"'], "timestamp"),
        (['"2026-01-31"'] * 99 + ['"soon"'], "date"),
    ],
)
def test_no_digit_and_no_time_is_lost_by_a_type(numbers: list[str], type: str) -> None:
    sent = records([b'{"x": %s}' % number.encode() for number in numbers])
    proposal = propose("orders", sent)
    assert types(proposal) == {"x": type}
    check(proposal, sent)
    assert sum(item.records for item in proposal.unread) == (type in ("bigint", "date"))


def test_what_would_go_to_the_quarantine_is_counted() -> None:
    values: list[Any] = [{"amount": 1.5, "at": f"2026-01-31T12:{n:02d}:00Z"} for n in range(57)]
    values += [{"amount": "4 EUR"}, b"no json", {"amount": 1, "at": "soon"}]
    sent = records(values)
    proposal = propose("orders", sent)
    assert [(item.reason, item.records, item.first) for item in proposal.unread] == [
        ("value: field amount: expected decimal(10, 1)", 1, "orders/0/57"),
        ("value: expected a JSON object", 1, "orders/0/58"),
        ("value: field at: expected timestamp", 1, "orders/0/59"),
    ]
    assert "1 of 60 values are text, not JSON objects." in proposal.notes
    check(proposal, sent)


@pytest.mark.parametrize(
    ("keys", "declared", "evidence"),
    [
        ([b"%d" % n for n in range(30)], "id string", "30 of 30 keys are text; equal to the value's field 'id' in 30"),
        ([n.to_bytes(4, "big") for n in range(30)], "id int",
         "30 of 30 keys are 4 bytes; equal to the value's field 'id' in 30"),
        ([n.to_bytes(8, "big") for n in range(30)], "id bigint",
         "30 of 30 keys are 8 bytes; equal to the value's field 'id' in 30"),
        ([b"other%d" % n for n in range(30)], "key string", "30 of 30 keys are text"),
        ([b"\xff\xfe\0\1\2\3" for _ in range(30)], "key binary", "30 of 30 keys are bytes"),
        ([b'{"id": %d, "x y": "a"}' % n for n in range(30)], "id bigint, x_y string from 'x y'", "30 numbers"),
        ([b'{"schema": {}, "payload": {"id": %d}}' % n for n in range(30)], "id bigint", "30 numbers"),
        ([None] * 30, "key string", "no record has a key"),
    ],
)  # fmt: skip
def test_keys(keys: list[bytes | None], declared: str, evidence: str) -> None:
    sent = records([{"id": n, "n": n} for n in range(30)], keys)
    proposal = propose("orders", sent)
    assert f"key={json.dumps(declared)}" in proposal.python
    assert proposal.columns[0].evidence == evidence
    assert "id" not in types(proposal) or not declared.startswith("id")
    if keys[0] is None:
        assert proposal.notes[0].startswith("30 of 30 records have no key: `rekey` gives one")
    check(proposal, sent)


def test_a_field_that_only_has_the_name_of_the_keys_is_a_column_of_its_own() -> None:
    keys = [b'{"id": %d}' % n for n in range(30)]
    for values in ([{"id": f"line-{n}", "n": n} for n in range(30)], [{"id": n if n % 9 else "x"} for n in range(30)]):
        for sent in (records(values, keys), records([{"schema": None, "payload": row} for row in values], keys)):
            proposal = propose("orders", sent)
            check(proposal, sent)
            assert 'key="id bigint"' in proposal.python
            assert "id_2 string from 'id'" in proposal.python
            assert "The value's field 'id' is another than the key's of this name" in proposal.notes[0]
            if "n" in values[0]:
                assert "In SQL, the value's field 'id' is left out: the key's has the name." in proposal.notes
    sent = records([{"id": str(n), "n": n} for n in range(30)], keys)
    assert types(propose("orders", sent)) == {"n": "bigint"}, "the key's, as a text"
    with pytest.raises(ConfigError, match="no field beside 'value', which the key has, too"):
        propose("orders", records([b"text"] * 30, [b'{"value": %d}' % n for n in range(30)]))


def test_a_databases_change_log_and_connects_rows() -> None:
    changes = [
        {"before": None, "after": {"id": n, "name": "x"}, "source": {"ts_ms": BEGIN}, "op": "c", "ts_ms": BEGIN}
        for n in range(30)
    ]
    keys = [b'{"id": %d}' % n for n in range(30)]
    for values in (changes, [{"schema": None, "payload": change} for change in changes]):
        sent = records([*values[:-1], None], keys, topic="shop.public.orders")
        proposal = propose("shop.public.orders", sent)
        assert "shop_public_orders = lh.debezium(" in proposal.python
        assert types(proposal) == {"name": "string"}
        assert "CREATE TABLE shop_public_orders" in proposal.sql
        assert "VALUE_FORMAT='DEBEZIUM'" in proposal.sql
        assert not proposal.unread
        check(proposal, sent)
    sent = records([{"schema": None, "payload": {"n": n}} for n in range(30)])
    assert 'format="connect_json"' in propose("orders", sent).python
    check(propose("orders", sent), sent)


def test_values_behind_a_registrys_id() -> None:
    sent = records([with_prefix(7, b'{"n": %d}' % n) for n in range(30)])
    proposal = propose("orders", sent)
    assert 'format="json_sr"' in proposal.python
    assert "VALUE_FORMAT='JSON_SR'" in proposal.sql
    check(proposal, sent)
    with pytest.raises(ConfigError, match=r"30 of 30 values begin with the id of a registry's schema, such as 7, and"):
        propose("orders", records([with_prefix(7, b"\x02\x08\xff") for _ in range(30)]))


@pytest.mark.parametrize(
    ("values", "declared"),
    [([b"plain text"] * 9, "value string"), ([b"\xff\xfe"] * 9, "value binary"), ([b"[1, 2]"] * 9, "value string")],
)
def test_values_that_are_no_objects(values: list[bytes], declared: str) -> None:
    sent = records(values)
    proposal = propose("orders", sent)
    assert f'schema="{declared}"' in proposal.python
    assert 'format="kafka"' in proposal.python
    assert not proposal.unread
    check(proposal, sent)


def test_a_topic_that_says_nothing() -> None:
    with pytest.raises(ConfigError, match="3 records were read and none has a value"):
        propose("orders", records([None] * 3))
    with pytest.raises(ConfigError, match="JSON objects without a field"):
        propose("orders", records([{}] * 3))
    with pytest.raises(ConfigError, match=r"none has an object in .*MongoDB's .* documents=True"):
        propose("orders", records([{"op": "c", "after": '{"_id": 1}', "source": {}}] * 3))


NAMES = st.one_of(
    st.sampled_from(
        ["at", "from", "select", "rowtime", "ROWOFFSET", "key", "Key", "price (EUR)", "a.b", "", " ", "`", "'", '"',
         "\\", "a\nb", "é", "_x", "9lives", "x" * 300, "lh", "import os", "'); import os; ('", "schema", "payload",
         "op", "$",
         "window_start", "valid_from", "\ud800", "<", ">", "a: b", "struct<a: int>", "x41_", "/*", "--", "timestamp"]
    ),
    st.text(max_size=6),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.integers(-(10**40), 10**40), st.floats(), st.text(max_size=8),
        st.sampled_from(["2026-01-31", "2026-01-31T12:00:00Z", "20260131", "9999-99-99", "+010000-01-01T00Z", BEGIN]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
DATAS = st.one_of(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=6), st.none(), st.binary(max_size=12),
    st.sampled_from([b"null", b"{}", b"[1]", b'{"a": 1} {', b'{"a": 1e999999999}', b'{"a": 1, "a": "x"}', b"[" * 3000]),
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(DATAS, min_size=1, max_size=12),
    st.lists(st.one_of(st.none(), st.binary(max_size=9), NAMES.map(lambda text: text.encode(errors="replace"))),
             min_size=12, max_size=12),
    st.sampled_from(["orders", "shop.public.orders", "9-lives", "class", "lh", "a__b", "..."[:1] + "x"]),
)  # fmt: skip
def test_whatever_a_topic_has_the_proposal_can_be_pasted(
    values: list[Any], keys: list[bytes | None], topic: str
) -> None:
    sent = records(values, keys[: len(values)], topic)
    try:
        proposal = propose(topic, sent)
    except ConfigError:
        return
    check(proposal, sent)


def test_rows_with_a_mark_of_deletes_are_a_change_log() -> None:
    rows = [{"id": number, "name": "a", "__deleted": "true" if number == 3 else "false"} for number in range(30)]
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    for values in (rows, [{"schema": schema, "payload": row} for row in rows]):
        sent = records(values, [json.dumps({"id": row["id"]}).encode() for row in rows])
        proposal = propose("orders", sent)
        check(proposal, sent)
        assert "flattened=True" in proposal.python
        assert "FLATTENED=true" in proposal.sql
        assert not proposal.unread
        assert any("where it is true, the row is deleted" in note for note in proposal.notes)


def test_a_schema_beside_the_values_says_what_they_are() -> None:
    connect = "org.apache.kafka.connect.data."
    fields = [
        {"field": "amount", "type": "bytes", "name": f"{connect}Decimal", "parameters": {"scale": "2"}},
        {"field": "at", "type": "int64", "name": f"{connect}Timestamp"},
        {"field": "born", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "n", "type": "int32"},
    ]
    row = {"amount": "BNI=", "at": BEGIN, "born": 9000, "n": 3}
    envelope = {"before": None, "after": row, "source": {"ts_ms": BEGIN}, "op": "c"}
    row_schema = {"type": "struct", "fields": fields}
    event_schema = {"type": "struct", "fields": [row_schema | {"field": "after"}]}
    for value in ({"schema": row_schema, "payload": row}, {"schema": event_schema, "payload": envelope}):
        sent = records([value] * 30, [b'{"id": 7}'] * 30)
        proposal = propose("orders", sent)
        check(proposal, sent)
        assert "amount decimal(38, 2), at timestamp, born date, n bigint" in proposal.python
        assert not proposal.unread


def test_a_mark_of_deletes_that_few_rows_have_is_a_field_like_others() -> None:
    sent = records([{"id": number} | ({"__deleted": "false"} if number == 3 else {}) for number in range(30)])
    proposal = propose("orders", sent)
    check(proposal, sent)
    assert "from '__deleted'" in proposal.python
    assert "flattened" not in proposal.python
