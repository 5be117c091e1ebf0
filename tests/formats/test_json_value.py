"""JSON to rows and back: what Spark's from_json takes and refuses (measured on Spark 4.2), and a round trip."""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.formats.values.json_value import decode_any_case, decode_object, encode_object
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.java_double import java_double
from lakehouse.semantics.surrogates import replace_surrogates


def read(kind: str, text: str) -> Any:
    row = decode_object(f'{{"a":{text}}}'.encode(), (Column("a", kind),))
    assert row is not None
    return row["a"]


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


TAKES: list[tuple[str, str, Any]] = [
    ("int", "-0", 0), ("int", "2147483647", 2**31 - 1), ("bigint", "-9223372036854775808", -(2**63)),
    ("int", "null", None),
    ("tinyint", "-128", -128), ("smallint", "32767", 32767), ("double", "1", 1.0), ("double", "1e400", math.inf),
    ("double", '"Infinity"', math.inf), ("double", '"-INF"', -math.inf), ("double", "-Infinity", -math.inf),
    ("float", "0.1", 0.10000000149011612), ("float", "3.5e38", math.inf),
    # rounded once: as doubles, these lie in the middle of two floats
    ("float", "1.0000001788139343", 1.0000001192092896), ("float", "1.00000017881393433", 1.000000238418579),
    ("float", "3.4028235677973366e38", 3.4028234663852886e38), ("float", "3.40282356779733662e38", math.inf),
    ("float", "-1.0000001788139343", -1.0000001192092896), ("float", "16777217", 16777216.0),
    ("float", "9007199791611905", 9007200328482816.0), ("float", "7.006492321624085e-46", 0.0),
    ("float", "7.006492321624086e-46", 1.401298464324817e-45), ("boolean", "true", True),
    ("string", '"x"', "x"), ("string", "true", "true"), ("string", "12", "12"), ("string", "1.50", "1.50"),
    ("string", "1e10", "1e10"), ("string", "-0", "-0"), ("string", "1234567.25", "1234567.25"),
    ("string", "0.001", "0.001"), ("string", "0.0009", "0.0009"), ("string", "-0.0", "-0.0"),
    ("string", "123456789012345678901234567890", "123456789012345678901234567890"), ("string", "1e400", "1e400"),
    ("string", '{"b": 1.50, "b": [1, null]}', '{"b":1.50,"b":[1,null]}'), ("string", r'"\ud83d\ude00"', "\U0001f600"),
    ("string", r'"\ud800"', "?"), ("decimal(10, 2)", "0.005", Decimal("0.01")),
    ("decimal(10, 2)", "-0.005", Decimal("-0.01")), ("decimal(10, 2)", "-0.004", Decimal("0.00")),
    ("decimal(10, 2)", '"+5."', Decimal("5.00")), ("decimal(10, 2)", '"1,234.5"', Decimal("1234.50")),
    ("decimal(10, 2)", "99999999.994", Decimal("99999999.99")), ("decimal", "1.5", Decimal(2)),
    ("decimal(38, 0)", "9" * 38, Decimal("9" * 38)), ("decimal(38, 38)", f"-0.{'9' * 38}", Decimal(f"-0.{'9' * 38}")),
    ("timestamp", '"2020-01-01T10:00:00.123456789Z"', at(2020, 1, 1, 10, 0, 0, 123456)),
    ("timestamp", '"2020-01-01T10:00:00+01:30"', at(2020, 1, 1, 8, 30)),
    ("timestamp", '"2020-01-01 10:00"', at(2020, 1, 1, 10)), ("timestamp", '"2020-1-1 9"', at(2020, 1, 1, 9)),
    ("timestamp", '" 2020-01 "', at(2020, 1, 1)),
    ("timestamp", '"2020-07-01 10:00:00 Europe/Paris"', at(2020, 7, 1, 8)),
    ("timestamp", "1577836800", at(2020, 1, 1)), ("timestamp", "-1", at(1969, 12, 31, 23, 59, 59)),
    ("date", '"2020-02-29"', date(2020, 2, 29)), ("date", '"2020-02-29T23:00:00-05:00"', date(2020, 2, 29)),
    ("date", '"2020"', date(2020, 1, 1)), ("double", "-0", 0.0),
    ("decimal(10, 2)", "1e-9000000", Decimal("0.00")), ("decimal(10, 2)", "0e99999999999", Decimal("0.00")),
    ("decimal(10, 2)", '"1e-99999999999999999999"', Decimal("0.00")), ("double", "-1e99999999999999999999", -math.inf),
    ("double", "0." + "1" * 1000, 0.1111111111111111), ("string", "-0.0", "-0.0"), ("string", "1E+400", "1E+400"),
    ("string", '{"\\ud800": "\\udc00"}', '{"\\uD800":"\\uDC00"}'),
    ("map<string, array<string>>", '{"a\\ud800b":["\\udc00", 1.50]}', {"a?b": ["?", "1.50"]}),
    ("binary", '"aGVs bG8="', b"hello"), ("binary", '""', b""),
    ("struct<x: int, y: string>", '{"x":1,"X":2}', {"x": 1, "y": None}), ("struct<x: int>", "null", None),
    ("array<int>", "[1,null]", [1, None]), ("map<string, int>", '{"k":1,"l":null}', {"k": 1, "l": None}),
    ("array<struct<x: decimal(4, 1)>>", '[{"x":1.25}]', [{"x": Decimal("1.3")}]),
]  # fmt: skip

REFUSES: list[tuple[str, str]] = [
    ("int", "1.0"), ("int", '"1"'), ("int", "true"), ("int", "2147483648"), ("int", "01"), ("int", "+1"),
    ("int", "NaN"),
    ("bigint", "9223372036854775808"), ("tinyint", "200"), ("double", '"1.5"'), ("double", '""'), ("double", '"nan"'),
    ("double", ".5"), ("boolean", '"true"'), ("boolean", "1"), ("string", '"a\tb"'), ("string", '"\\x"'),
    ("string", "'x'"),
    ("decimal(38, 37)", f"9.{'9' * 38}"),
    ("decimal(10, 2)", "99999999.995"), ("decimal(10, 2)", '"1e999999999"'), ("decimal(10, 2)", '" 1"'),
    ("decimal(10, 2)", '"NaN"'), ("decimal(10, 2)", "NaN"), ("decimal(10, 2)", "true"), ("timestamp", '"12:30"'),
    ("timestamp", '"2020-01-01T24:00Z"'), ("timestamp", '"2020-01-01T24:00:00"'), ("timestamp", '"2020-02-30"'),
    ("timestamp", '"2020-01-01T10:00:00+19:00"'), ("timestamp", '"2020-01-01 10:00:00 Nowhere/City"'),
    ("timestamp", '"now"'), ("timestamp", "1.5"), ("timestamp", "253402300800"), ("timestamp", "true"),
    ("date", "18262"),
    ("date", '"20201301"'), ("date", '"12020-01-01"'), ("binary", '"a"'), ("binary", '"a-_b"'), ("binary", "1"),
    ("struct<x: int>", "1"), ("struct<x: int>", '{"x":"1"}'), ("array<int>", '["1"]'), ("array<int>", "1"),
    ("map<string, int>", '{"k":"v"}'), ("int", '1,"a":"x"'), ("int", '"x","a":1'), ("int", "1" * 1001),
    ("bigint", "1e5000"), ("bigint", "1e999999999"), ("int", "-2e4301"), ("bigint", "9" * 1000),
    ("decimal(10, 2)", "1e5000000"), ("decimal(10, 2)", "1e99999999999999999999"), ("array<int>", "[1e999999999]"),
    ("map<string, decimal(6, 3)>", '{"a":"-4e7000000"}'), ("double", "1e" + "1" * 1000),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), TAKES)
def test_takes(kind: str, text: str, expected: Any) -> None:
    actual = read(kind, text)
    assert actual == expected
    assert str(actual) == str(expected)  # the scale of a decimal, the sign of a zero, the type


@pytest.mark.parametrize(("kind", "text"), REFUSES)
def test_refuses(kind: str, text: str) -> None:
    with pytest.raises(Unfit):
        read(kind, text)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"  ", b"1", b'"x"', b"[]", b'[{"a":1}]', b'{"a":1', b'{"a":1} x', b'{"a":1},',
        b"nullx", b"null}", b"{'a':1}",
        b"{a:1}", b'{"a":1,}', b'{"a":1 /* c */}', b'\xef\xbb\xbf{"a":1}', b'{"b":"\xff","a":1}', b'{"b":01,"a":1}',
        b'{"a":1}\x00', b'{"b":' + b"[" * 100_000 + b"}",
    ],
)  # fmt: skip
def test_what_is_not_an_object_is_refused(data: bytes) -> None:
    with pytest.raises(Unfit, match="expected"):
        decode_object(data, (Column("a", "int"),))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b' {"a" : 1}\r\n', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":1,"a":null}', {"a": None}),
        (b'{"a":1}{"a":2}', {"a": 1}),
        (b'{"A":1,"b":NaN}', {"a": None}),
        (b'{"\\u0061":1}', {"a": 1}),
        (b"{}", {"a": None}),
        (b" null\n", None),
    ],
)
def test_objects(data: bytes, expected: dict[str, Any] | None) -> None:
    assert decode_object(data, (Column("a", "int"),)) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"size": 1, "AT": {"X": 2}}', (1, 2)), ('{"Size": 1, "size": 3}', (3, None)),
        # As in Spark's patterns, only ASCII's letters have a case: these are other names.
        ('{"\u017fize": 1}', (None, None)), ('{"s\u0131ze": 1}', (None, None)), ('{"\ufb01": 1}', (None, None)),
    ],
)  # fmt: skip
def test_names_in_any_case(text: str, found: tuple[int | None, int | None]) -> None:
    columns = (Column("SIZE", "int"), Column("FI", "int"), Column("at", "struct<x: int>"))
    row = decode_any_case(text.encode(), columns)
    assert row == {"SIZE": found[0], "FI": None, "at": None if found[1] is None else {"x": found[1]}}


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("int", '"x"', "field a: expected int, found 'x'"),
        ("struct<x: int>", '{"x":true}', "field a: field x: expected int, found true"),
        ("decimal(4, 2)", "100", "field a: expected decimal(4, 2), found 100"),
        ("timestamp", '"soon"', "field a: expected timestamp, found 'soon'"),
        ("int", '"' + "x" * 5000 + '"', "... (5002 characters)"),
    ],
)
def test_a_reason_names_the_field_and_what_was_found(kind: str, text: str, reason: str) -> None:
    with pytest.raises(Unfit) as error:
        read(kind, text)
    assert reason in str(error.value)
    assert len(str(error.value)) < 200


def test_rows_are_written_compactly_in_the_order_of_the_columns() -> None:
    row = {
        "m": Decimal("1.50"), "t": at(2020, 1, 1, 10), "ms": at(2020, 1, 1, 0, 0, 0, 5000),
        "us": at(2020, 1, 1, 0, 0, 0, 5),
        "day": date(2020, 1, 1), "raw": b"\x00\xff", "d": 0.1, "nan": math.nan, "s": 'Zoë "x"', "who": {"a": None},
        "list": [1, None], "extra": 1, "tiny": Decimal("0E-10"),
    }  # fmt: skip
    names = ["who", "m", "t", "ms", "us", "day", "raw", "d", "nan", "s", "list", "absent", "tiny"]
    columns = tuple(Column(name, "string") for name in names)
    assert encode_object(row, columns).decode() == (
        '{"who":{"a":null},"m":1.50,"t":"2020-01-01T10:00:00Z","ms":"2020-01-01T00:00:00.005Z",'
        '"us":"2020-01-01T00:00:00.000005Z","day":"2020-01-01","raw":"AP8=","d":0.1,"nan":"NaN","s":"Zoë \\"x\\"",'
        '"list":[1,null],"absent":null,"tiny":0.0000000000}'
    )


def test_a_timestamp_without_a_zone_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="has no zone"):
        encode_object({"a": datetime(2020, 1, 1)}, (Column("a", "timestamp"),))


COLUMNS = (
    Column("i", "bigint"), Column("d", "double"), Column("m", "decimal(20, 5)"), Column("b", "boolean"),
    Column("s", "string"),
    Column("t", "timestamp"), Column("day", "date"), Column("raw", "binary"), Column("list", "array<int>"),
    Column("who", "struct<x: int, y: string>"), Column("map", "map<string, double>"),
)  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8"))
DOUBLE = st.floats(allow_nan=False)
ROWS = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | DOUBLE,
        "m": st.none() | st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-5)),
        "b": st.none() | st.booleans(),
        "s": st.none() | TEXT,
        "t": st.none() | st.datetimes(timezones=st.just(UTC)),
        "day": st.none() | st.dates(),
        "raw": st.none() | st.binary(),
        "list": st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)),
        "who": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.none() | TEXT}),
        "map": st.none() | st.dictionaries(TEXT, st.none() | DOUBLE),
    }
)


@given(ROWS)
def test_what_is_written_is_read_again(row: dict[str, Any]) -> None:
    actual = decode_object(encode_object(row, COLUMNS), COLUMNS)
    assert actual == row
    assert actual is not None
    assert str(actual["m"]) == str(row["m"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | DOUBLE | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(st.dictionaries(st.sampled_from([column.name for column in COLUMNS]), JSON))
def test_any_object_gives_a_row_or_a_reason(content: dict[str, Any]) -> None:
    with suppress(Unfit):
        row = decode_object(json.dumps(content).encode(), COLUMNS)
        assert row is not None
        assert decode_object(encode_object(row, COLUMNS), COLUMNS) == row


@given(st.binary())
def test_any_bytes_give_a_row_or_a_reason(data: bytes) -> None:
    with suppress(Unfit):
        decode_object(data, COLUMNS)


@given(DOUBLE.filter(math.isfinite))
def test_a_double_as_java_writes_it_is_that_double(value: float) -> None:
    text = java_double(value)
    assert float(text) == value
    assert "." in text
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    assert replace_surrogates("a\ud800b") == "a?b"


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_a_deeply_nested_field_is_a_text_or_has_a_reason_as_long_as_spark_reads_it(begin: str, end: str) -> None:
    def value(levels: int) -> bytes:
        return f'{{"x":{begin * levels}1{end * levels}}}'.encode()

    for levels in (400, 600, 999):
        row = decode_object(value(levels), (Column("x", "string"),))
        assert row == {"x": value(levels).decode()[5:-1]}
        with pytest.raises(Unfit, match="field x: expected bigint, found"):
            decode_object(value(levels), (Column("x", "bigint"),))
    for levels in (1000, 100_000):
        with pytest.raises(Unfit, match="expected JSON of at most 1000 levels, found more at character"):
            decode_object(value(levels), (Column("x", "string"),))


def test_brackets_in_a_text_are_no_levels() -> None:
    text = "[" * 2000 + '\\"' + "{" * 2000
    assert decode_object(json.dumps({"x": text}).encode(), (Column("x", "string"),)) == {"x": text}


MANY = 300_000
QUOTE = '\\"'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("decimal(10, 2)", f'"{"1" * MANY}x"'),
        ("decimal(10, 2)", f'"1.{"1" * MANY}x"'),
        ("decimal(10, 2)", f'"1e{"1" * MANY}x"'),
        ("double", f'"{"1" * MANY}x"'),
        ("int", f'"{"1" * MANY}x"'),
        ("timestamp", f'"2026-01-31T12:00:00.{"1" * MANY}x!"'),
        ("timestamp", f'"2026-01-31T12:00:00{" " * MANY}x!"'),
        ("binary", f'"{"A " * MANY}"'),
        ("string", f'["{"[]" * 600}{QUOTE * MANY}'),
        ("string", f'"{"[]" * 600}", "b": {"1" * MANY}x'),
    ],
)
def test_a_long_text_that_does_not_fit_has_its_reason_at_once(kind: str, text: str) -> None:
    started = time.process_time()
    for decode in (decode_object, decode_any_case):
        with pytest.raises(Unfit):
            decode(f'{{"a":{text}}}'.encode(), (Column("a", kind),))
    assert time.process_time() - started < 10  # in time that grows with the square of the length: for minutes
