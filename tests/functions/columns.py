"""Generated rows: a column of each type, and of each kind of text that functions read, with the values at its ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from struct import pack, unpack
from typing import Any

Make = Callable[[Random], Any]

# Beside ASCII: a sharp s and a dotted I, which grow in upper or lower case; sigmas; combining signs; pairs of
# surrogates; a blank that is none to Java; controls.
LETTERS = [*"abcXYZ019 ._-,%/+=&'\"\\$", "\u00df", "\u0130", "\u03a3", "\u03c2", "e\u0301", "\u0301", "\U0001f600"]
LETTERS += ["\U0001d11e", "\u00a0", "\u4e2d", "\t", "\n", "\u00e9", "\u0660", "\u01c6"]
WORDS = ["", " ", "a", "abc", "Ada Lovelace", "the QUICK fox", "  x ", "a,b,,c", "null", "true", "12", "-7", "aXbXc"]
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
MOMENTS = [
    FIRST, LAST, datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2020, 2, 29, 23, 59, 59, 123456, tzinfo=UTC), datetime(2020, 12, 31, tzinfo=UTC),
    datetime(2021, 1, 1, 12, 0, 0, 1000, tzinfo=UTC), datetime(1582, 10, 10, tzinfo=UTC),
    datetime(2021, 3, 28, 1, 30, tzinfo=UTC), datetime(2019, 12, 30, 23, 59, 59, tzinfo=UTC),
    datetime(1000, 1, 1, tzinfo=UTC), datetime(2020, 10, 25, 0, 30, tzinfo=UTC),
]  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-300, 5e-324, 1.7976931348623157e308, 1e15, 1e16, 1e17,
    123456789.125, 4e9, -4e9, 1e19, -1e19, 0.001, 0.0001, 9999999.0, 1e7, float("nan"), float("inf"), float("-inf"),
    3.141592653589793, 100.0, 2.0,
]  # fmt: skip
DOCUMENTS = [
    '{"b": 1}', '{"b": 1} and more', '{"b": "p", "b": "q"}', '{"b": {"c": 1, "d": 2}}', '{"b": [1, 2]} {"b": 3}',
    '{"b": ', "[1, [2, 3]] ]", "[1, 2, 3]", "[]", "{}", "null", "7", '"text"', "", "nothing", '{"b": null}', "[1,]",
    '{"user-id": "x", "a": {"b": "y"}}', '{"b": 1.0}', '{"b": 1e2}', '{"b": 799.929496989092949698}', "[1] [2]",
    '{"b": "\\u00e9\\n"}', '{"b": [{"c": 1}, {"c": 2}]}', '{"b": true}', "{'b': 1}", ' {"b" : [ ] } ', '[{"b": 5}]',
    '{"b": 12345678901234567890}', '{"b": -0}', '{"b": 01}', '{"b": NaN}', "[1, 2", '{"a": {"b": [10, {"c": "z"}]}}',
]  # fmt: skip
NUMBERS = [
    "0", "-0", "12", "+7", " 42 ", "1.9", "-1.9", ".5", "5.", "1e3", "1E-3", "2147483648", "-2147483649", "1_0", "",
    "9223372036854775808", "NaN", "Infinity", "-inf", "1d", "1.5f", "0x10", "x", "99999999999999999999999999999999999",
    "1e400", "007", "1.25", "1.255", "- 1", "\u0661", "--1", "12345678.905", "127", "-129", "32768", "1e-400", "true",
]  # fmt: skip
TIMES = [
    "2020-01-01", "2020-02-30", "2020-02-29", "2020-1-1", "2020", "2020-01", "2020-01-01 12:30:00", "2020-01-01T12:30",
    "2020-01-01 12:30:00.123456", "2020-01-01T12:30:00Z", "2020-01-01T12:30:00+02:00", " 2020-01-01 ", "x", "",
    "2020-01-01 25:00:00", "0001-01-01", "9999-12-31", "10000-01-01", "2020-01-01T12:30:00.123456789", "01/02/2020",
    "2020-13-01", "20200101", "2020-01-01 12:30:00 Europe/Berlin", "-0001-01-01", "2020-01-01T", "epoch", "31.12.2021",
    "2020-12-31 23:59", "2020-01-01 1:2:3",
]  # fmt: skip
ADDRESSES = [
    "https://a.org:8080/x/y?q=1#f", "http://a.org", "http://user:secret@a.org/p%20q?a=b&q=2", "a.org/x", "", "http://",
    "https://a.org/x?q=a%20b&q=c", "mailto:a@b.org", "http://[::1]/x", "ftp://a.org:21/", "a b", "%zz", "a+b%26c",
]  # fmt: skip
PATTERNS = ["a", "[a-c]+", "(\\d+)-(\\d+)", "^$", "X", "", "b.", "(a)(b)?", "\\s", ".", "[", "x|y", "a%", "_b%"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30", "Pacific/Apia", "nowhere"]


def _of(values: list[Any], other: Make | None = None) -> Make:
    """Half of the values are these, half made, some null."""

    def make(random: Random) -> Any:
        if random.random() < 0.1:
            return None
        return other(random) if other is not None and random.random() < 0.5 else random.choice(values)

    return make


def _whole(bits: int) -> Make:
    most = 2 ** (bits - 1)
    ends = [0, 1, -1, 2, 7, -7, 10, 100, most - 1, -most, most - 2, -most + 1]
    return _of(ends, lambda random: random.choice([random.randint(-most, most - 1), random.randint(-20, 20)]))


def _decimal(precision: int, scale: int) -> Make:
    def made(random: Random) -> Decimal:
        digits = 10 ** random.randint(1, precision)
        return _scaled(random.randint(1 - digits, digits - 1), scale)

    most = 10**precision - 1
    ends = [0, 1, -1, 5, 15, -15, 25, min(10**scale, most), -min(10**scale, most), 250, most, -most]
    return _of([_scaled(number, scale) for number in ends], made)


def _scaled(number: int, scale: int) -> Decimal:
    """A decimal with all its digits: arithmetic would round it."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _text(random: Random) -> str:
    return "".join(random.choice(LETTERS) for _ in range(random.randint(0, 8)))


def _float(value: float) -> float:
    try:
        return float(unpack("f", pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def random_moment(random: Random) -> datetime:
    every = timedelta(seconds=random.randint(0, int((LAST - FIRST).total_seconds()) - 1))
    near = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=random.randint(0, 10**15))
    return random.choice([FIRST + every, near])


def _written_moment(random: Random) -> str:
    return random_moment(random).strftime("%Y-%m-%d %H:%M:%S").zfill(19)


def _list(item: Make, most: int = 4) -> Make:
    return _of([[]], lambda random: [item(random) for _ in range(random.randint(0, most))])


def _struct(random: Random) -> dict[str, Any]:
    return {"a": _of([1, 2, -3])(random), "b": _of(WORDS, _text)(random)}


def _map(key: Make, value: Make) -> Make:
    return _of([{}], lambda random: {key(random): value(random) for _ in range(random.randint(0, 3))})


_int, _texts = _of([0, 1, 2, 3, 3, -5, 9, 2**31 - 1, -(2**31)]), _of(WORDS, _text)
_double, _day = _of(DOUBLES, lambda random: random.uniform(-1000, 1000)), lambda m: m and m.date()
# name: (Spark's type, ksqlDB's type, values). Two columns of a type, where functions take two.
COLUMNS: dict[str, tuple[str, str, Make]] = {
    "i": ("int", "INTEGER", _whole(32)),
    "j": ("int", "INTEGER", _whole(32)),
    "few": ("int", "INTEGER", _of([0, 1, 2, 3, -1, -2, 5])),
    "l": ("bigint", "BIGINT", _whole(64)),
    "n": ("bigint", "BIGINT", _whole(64)),
    "ms": ("bigint", "BIGINT", _of([0, -1, 1, 1_600_000_000_123, -62_135_596_800_000, 253_402_300_799_999, 2**62])),
    "h": ("smallint", "", _whole(16)),
    "y": ("tinyint", "", _whole(8)),
    "f": ("float", "", lambda random: None if (v := _double(random)) is None else _float(v)),
    "d": ("double", "DOUBLE", _double),
    "e": ("double", "DOUBLE", _double),
    "p": ("decimal(10, 2)", "DECIMAL(10, 2)", _decimal(10, 2)),
    "q": ("decimal(38, 18)", "DECIMAL(38, 18)", _decimal(38, 18)),
    "u": ("decimal(5, 0)", "DECIMAL(5, 0)", _decimal(5, 0)),
    "s": ("string", "STRING", _texts),
    "t": ("string", "STRING", _texts),
    "part": ("string", "STRING", _of(["a", "b", "X", ",", "", " ", "e\u0301", "\U0001f600", "."])),
    "num": ("string", "STRING", _of(NUMBERS, lambda random: str(random.randint(-(10**6), 10**6)))),
    "moment": ("string", "STRING", _of(TIMES, lambda random: _written_moment(random))),
    "js": ("string", "STRING", _of(DOCUMENTS, lambda random: json.dumps({"b": _texts(random), "a": [_int(random)]}))),
    "url": ("string", "STRING", _of(ADDRESSES, _text)),
    "pattern": ("string", "STRING", _of(PATTERNS)),
    "zone": ("string", "STRING", _of(ZONES)),
    "raw": ("binary", "BYTES", _of([b"", b"a", b"\xff", b"abc\x00", "\u00e9".encode(), b"\x01" * 16],
                                   lambda random: random.randbytes(random.choice([1, 4, 8])))),
    "more": ("binary", "BYTES", _of([b"", b"a", b"b", b"\xff\xfe"])),
    "day": ("date", "DATE", lambda random: _day(_of(MOMENTS, random_moment)(random))),
    "other_day": ("date", "DATE", lambda random: _day(_of(MOMENTS, random_moment)(random))),
    "at": ("timestamp", "TIMESTAMP", _of(MOMENTS, random_moment)),
    "until": ("timestamp", "TIMESTAMP", _of(MOMENTS, random_moment)),
    "clock": ("int", "TIME", _of([0, 1, 999, 1000, 59_999, 3_600_000, 86_399_999],
                                 lambda random: random.randint(0, 86_399_999))),
    "flag": ("boolean", "BOOLEAN", _of([True, False])),
    "sure": ("boolean", "BOOLEAN", _of([True, False])),
    "xs": ("array<int>", "ARRAY<INTEGER>", _list(_int)),
    "ys": ("array<int>", "ARRAY<INTEGER>", _list(_int)),
    "ds": ("array<double>", "ARRAY<DOUBLE>", _list(_double)),
    "ts": ("array<string>", "ARRAY<STRING>", _list(_texts)),
    "us": ("array<string>", "ARRAY<STRING>", _list(_texts)),
    "xss": ("array<array<int>>", "ARRAY<ARRAY<INTEGER>>", _list(_list(_int, 2), 3)),
    "m": ("map<string, int>", "MAP<STRING, INTEGER>", _map(lambda random: random.choice(["a", "b", "", "c d"]), _int)),
    "o": ("map<string, int>", "MAP<STRING, INTEGER>", _map(lambda random: random.choice(["a", "b", "z"]), _int)),
    "w": ("struct<a: int, b: string>", "STRUCT<A INTEGER, B STRING>", _of([{"a": 1, "b": "x"}], _struct)),
    "ws": ("array<struct<a: int, b: string>>", "ARRAY<STRUCT<A INTEGER, B STRING>>", _list(
           lambda random: None if random.random() < 0.1 else _struct(random))),
}  # fmt: skip


def rows(seed: int, many: int) -> list[dict[str, Any]]:
    """Return so many rows of this seed; the first one has only nulls."""
    random = Random(seed)
    made = [{name: make(random) for name, (_, _, make) in COLUMNS.items()} for _ in range(many - 1)]
    return [dict.fromkeys(COLUMNS), *made]
