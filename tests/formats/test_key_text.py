"""A key as text: no two keys share a text, and a written key is read back unchanged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import ConfigError
from lakehouse.formats.key_text import parse_key, write_key
from lakehouse.plan.expression.schema import Column, parse_schema

TWO = parse_schema("a string, b string", "key")
TEXTS = st.none() | st.text(alphabet='a,"\n\r \\', max_size=5) | st.text(max_size=5)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "double": st.floats(allow_nan=False),
    "decimal(38, 10)": st.decimals(-(10**20), 10**20, places=10, allow_nan=False),
    "timestamp": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    "date": st.dates(),
    "binary": st.binary(max_size=5),
    "array<string>": st.lists(st.none() | st.text(alphabet='a,"', max_size=3), max_size=3),
    "struct<x: int, y: string>": st.fixed_dictionaries(
        {"x": st.none() | st.integers(0, 9), "y": st.none() | st.text(alphabet='a,"', max_size=3)}
    ),
}


@pytest.mark.parametrize("name", ['a"b', "a\\", "é\n"])
def test_a_struct_s_column_may_have_any_name(name: str) -> None:
    assert parse_key('{"x": 1}', [Column(name, "struct<x: int>")]) == ({"x": 1},)


def test_two_keys_that_would_be_one_text_if_joined_by_commas() -> None:
    one, other = ("a,b", "c"), ("a", "b,c")
    assert (write_key(one), write_key(other)) == ('"a,b",c', 'a,"b,c"')
    assert parse_key('"a,b",c', TWO) == one
    assert parse_key('a,"b,c"', TWO) == other


@given(key=st.tuples(TEXTS, TEXTS))
def test_a_key_of_several_columns_is_read_back_unchanged(key: tuple[str | None, str | None]) -> None:
    assert parse_key(write_key(key), TWO) == key


@given(data=st.data())
def test_values_of_every_type_are_read_back_unchanged(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    columns = [Column(f"c{n}", kind) for n, kind in enumerate(kinds)]
    key = tuple(data.draw(VALUES[kind]) for kind in kinds)
    assert parse_key(write_key(key), columns) == key


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("string", 'o"neil, x', 'o"neil, x'),
        ("timestamp", datetime(2013, 7, 4, 18, 0, 0, 5, UTC), "2013-07-04T18:00:00.000005Z"),
        ("date", date(2013, 7, 4), "2013-07-04"),
        ("decimal(5, 2)", Decimal("1.50"), "1.50"),
        ("boolean", True, "true"),
        ("binary", b"\xff\x00", "/wA="),
        ("double", float("inf"), "Infinity"),
        ("struct<x: int>", {"x": 1}, '{"x":1}'),
    ],
)
def test_a_key_of_one_column_is_its_value(kind: str, value: Any, text: str) -> None:
    assert write_key((value,)) == text
    assert parse_key(text, [Column("c", kind)]) == (value,)


def test_a_value_may_be_spelled_otherwise() -> None:
    columns = parse_schema("at timestamp, n decimal(5, 2)", "key")
    assert parse_key("2013-07-04T20:00:00+02:00,1.5", columns) == parse_key("2013-07-04T18:00:00Z,1.50", columns)
    assert parse_key('o"neil,5"', TWO) == ('o"neil', '5"'), "a quote that begins no value is one"
    assert parse_key(',""', TWO) == (None, "")


@pytest.mark.parametrize(
    ("text", "schema", "said"),
    [
        ("a,b,c", "a string, b string", "found 3 values. Expected a string,b string: the values joined by commas"),
        ("a", "a string, b string", "found 1 values"),
        ("", "a string, b string", "found 1 values"),
        ('"a,b', "a string, b string", "a quote is not closed at character 0"),
        ('"a"b,c', "a string, b string", "a quote is not closed at character 0"),
        ("x,1", "a string, at timestamp", "at: expected timestamp, found '1'"),
        ("x", "n bigint", "n: expected bigint, found 'x'. Expected a bigint."),
        ('{"x":1} {', "s struct<x: int>", "s: "),
        ("[1", "s array<int>", "s: "),
    ],
)
def test_a_text_that_is_no_key_is_refused_with_the_expected_form(text: str, schema: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_key(text, parse_schema(schema, "key"))
    assert said in str(refused.value)


@pytest.mark.parametrize("key", [7, ("a",), None, b"a"])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    """As a text's value it would be the key of no row, and the answer nothing."""
    with pytest.raises(ConfigError, match=r"expected its text, such as '7'. Expected a string"):
        parse_key(key, [Column("name", "string")])
