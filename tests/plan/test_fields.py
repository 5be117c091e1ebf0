"""Fields of any name as columns of others: declared, refused, compared; and how far ahead an event time may lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.duration import duration_ms, duration_text
from lakehouse.errors import PlanError
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.encode import encode_value
from lakehouse.plan.evolution.differences import find_differences
from lakehouse.plan.evolution.fingerprint import table_fingerprint
from lakehouse.plan.expression.schema import ESCAPED, Column, fields_of, parse_schema, parse_type
from lakehouse.plan.names.field import column_name, field_name
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.time.future_time import HEADER, is_judged


def orders(schema: str = "a int, at timestamp", key: str = "id string", **options: Any) -> Stream:
    return lh.stream("orders", key=key, schema=schema, **options)


def test_a_schema_names_fields() -> None:
    columns = parse_schema("a int FROM '__a', `b` string from \"it's\", c struct<d: int from 'x y', e: string>", "s")
    assert [(c.name, c.type, c.field, c.field_type) for c in columns] == [
        ("a", "int", "__a", None),
        ("b", "string", "it's", None),
        ("c", "struct<d: int, e: string>", None, "struct<`x y`: int, e: string>"),
    ]
    assert [str(column) for column in columns[:2]] == ["a int from '__a'", "b string from 'it''s'"]
    assert parse_schema("a int from 'a'", "s") == (Column("a", "int"),), "its own name"
    assert [c.name for c in parse_schema("from string, s struct<from: int>", "s")] == ["from", "s"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("_id int", "\"id int from '_id'\""),
        ("`log.level` string", "\"log_level string from 'log.level'\""),
        ("`имя` string", "\"field string from 'имя'\""),
        ("rowtime bigint", "\"rowtime_of_record bigint from 'rowtime'\""),
        ("a int from 'x', b int from 'x'", "the field 'x' is read twice"),
        ("s struct<a: int from 'x', b: int from 'x'>", "the field 'x' is read twice"),
        ("a int comment 'x'", "is not a column and its type"),
        ("a int from 'x' from 'y'", "is not a column and its type"),
        *((f"s struct<`{sign}`: int>", "a struct has a field") for sign in ("a b", "a,b", "a=b", "(", ":", "\t", "'")),
        ("s struct<a: int, A: int>", "the same name, since case is ignored"),
        ("s array<map<string, struct<`a b`: int>>>", "struct<a_b: string from 'a b'>"),
    ],
)
def test_what_no_column_can_be_called(schema: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        orders(schema)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": "id string from '_id'"}, "or give key_format='json'"),
        ({"schema": "a int from 'b'", "format": "csv"}, "by their places"),
        ({"max_ahead": "1 day"}, 'event_time="at"'),
        ({"max_ahead": "one day", "event_time": "at"}, "expected a duration"),
    ],
)
def test_what_has_no_meaning(options: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        orders(**options)
    assert said in str(error.value)


def test_a_key_by_its_name_alone_is_a_field_only_in_json() -> None:
    for key_format, field in (("kafka", None), ("json", "_id")):
        source = orders("id string from '_id', a int", "id", key_format=key_format).sources[0]
        assert (source.key[0].field, [column.name for column in source.value]) == (field, ["a"])


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (orders("a int"), orders("a int from 'b'"), "column a of stream orders"),
        (orders("a int from 'b'"), orders("a int from 'c'"), "found int from 'b', declared int from 'c'"),
        (orders(event_time="at"), orders(event_time="at", max_ahead="36 hours"), "found any, declared 1 day 12 hours"),
        (orders(key_format="json"), orders(key="id string from '_id'", key_format="json"), "id string from '_id'"),
    ],
)
def test_other_fields_and_limits_are_another_logic(was: Stream, now: Stream, said: str) -> None:
    def table(stream: Stream) -> Table:
        return stream.group_by("id").agg(n=lh.sum("a")).table("t")

    actual = list(find_differences(table_fingerprint(table(was)), table_fingerprint(table(now))))
    assert [verdict.kind for verdict in actual] == ["refold"]
    assert said in actual[0].text


NAMES = st.text(st.sampled_from("_x4a0- é1Zы.@()`\"'\n😀"), min_size=1, max_size=12)


@given(NAMES, NAMES)
def test_every_name_in_backticks_is_a_columns_name_of_its_own(one: str, other: str) -> None:
    made = column_name(one)
    assert field_name(made) == one
    assert ESCAPED.fullmatch(made)
    assert (made == column_name(other)) == (one == other)
    (field,) = fields_of((Column(made, f"struct<{made}: int>"),))
    assert (field.name, parse_type(field.type).expressions[0].name) == (one, one)


@pytest.mark.parametrize("name", ["a", "ID", "a_b", "x", "x40", "tax_"])
def test_a_possible_name_stays(name: str) -> None:
    assert column_name(name) == name


@given(NAMES, st.integers(-5, 5))
def test_what_is_written_under_a_fields_name_is_read_again(name: str, number: int) -> None:
    column = column_name(name)
    columns = (Column(column, f"struct<{column}: int>"), Column("rows", f"array<map<string, struct<{column}: int>>>"))
    row = {column: {column: number}, "rows": [{"m": {column: number}, "n": None}, None]}
    data = encode_value("json+named", columns, row)
    assert decode_columns("json+named", columns, data) == row
    read = tuple(Column(c.name, c.type, f.name, f.type) for c, f in zip(columns, fields_of(columns), strict=True))
    assert decode_columns("json", read, data) == row
    assert encode_value("json", read, row) == data


def test_what_is_judged_by_its_own_timestamp() -> None:
    assert is_judged(0, [("a", b"b")])
    assert not is_judged(-1, []), "Kafka gave it none"
    assert not is_judged(0, [(HEADER, None)]), "it was fixed by hand"


@given(st.integers(0, 10**14))
def test_a_duration_as_text(ms: int) -> None:
    assert duration_ms(duration_text(ms), "d") == ms
