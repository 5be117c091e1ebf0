"""Bytes: as texts in an encoding, and as numbers."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.function.sql import Sql, let
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"
_ENCODINGS = ("hex", "utf8", "ascii", "base64")
# A text literal of Spark SQL: what ASCII has not.
_NOT_ASCII = "'[^\\\\x00-\\\\x7F]'"
_BASE64 = "^[A-Za-z0-9+/]*={0,2}(?!.|\\\\n)"
EMPTY = "cast('' AS binary)"
A = "TO_BYTES('a', 'utf8')"


def _by_encoding(encoding: Sql, at: str, make: Callable[[str], str]) -> str:
    """What is made by an encoding: that of a literal, or of each record."""
    if encoding.literal is None:
        cases = " ".join(f"WHEN lower({encoding.text}) = '{one}' THEN {make(one)}" for one in _ENCODINGS)
        return f"CASE {cases} END"
    if encoding.literal.lower() not in _ENCODINGS:
        raise SqlError(f"{at}: the encoding is one of {', '.join(_ENCODINGS)}")
    return make(encoding.literal.lower())


def _to_bytes(of: Sql, encoding: Sql) -> str:
    return _by_encoding(encoding, "TO_BYTES", lambda name: _as_bytes(of, name))


def _as_bytes(of: Sql, encoding: str) -> str:
    match encoding:
        case "hex":
            return let(of.text, "_digits", _unhexed)
        case "base64":
            return let(of.text, "_written", _from_base64)
        case "ascii":
            return f"encode(regexp_replace({of.text}, {_NOT_ASCII}, '?'), 'UTF-8')"
    return f"encode({of.text}, 'UTF-8')"


def _from_base64(of: str) -> str:
    """The bytes; null for a text with other characters, which Spark leaves out."""
    ends = f"(length({of}) % 4 = 0 OR ({of} NOT LIKE '%=' AND length({of}) % 4 > 1))"
    return f"CASE WHEN {of} RLIKE '{_BASE64}' AND {ends} THEN unbase64({of}) END"


def _unhexed(of: str) -> str:
    inside = f"substring({of}, 3, length({of}) - 3)"
    bare = f"CASE WHEN {of} RLIKE '^[xX]\\'.*\\'$' THEN {inside} ELSE regexp_replace({of}, '^0x', '') END"
    # After 0x alone an odd number of digits is right; unhex takes it always.
    return f"CASE WHEN length({bare}) % 2 = 0 OR {of} LIKE '0x%' THEN unhex({bare}) END"


def _from_bytes(of: str, encoding: Sql) -> str:
    return _by_encoding(encoding, "FROM_BYTES", lambda name: _as_text(of, name))


def _as_text(of: str, encoding: str) -> str:
    match encoding:
        case "hex":
            return f"hex({of})"
        case "base64":
            return f"base64({of})"
        case "ascii":
            # ASCII's bytes are the same in ISO-8859-1; every other one is the sign for what can't be read.
            return f"regexp_replace(decode({of}, 'ISO-8859-1'), {_NOT_ASCII}, '\ufffd')"
    return f"decode({of}, 'UTF-8')"


def _encoded(of: Sql, one: Sql, other: Sql) -> str:
    """ENCODE writes hexadecimal digits in lower case, FROM_BYTES in upper case."""
    made = _to_bytes(of, one)

    def written(name: str) -> str:
        return f"lower({_as_text(made, name)})" if name == "hex" else _as_text(made, name)

    return _by_encoding(other, "ENCODE", written)


def _digits(size: int, of: Sql, order: Sql | None = None) -> str:
    """The hexadecimal digits of a number of so many bytes, the largest first; null for another number of bytes."""
    if order is not None and order.literal not in (None, "BIG_ENDIAN", "LITTLE_ENDIAN"):
        raise SqlError("the order of the bytes is 'BIG_ENDIAN' or 'LITTLE_ENDIAN'")
    word = "'BIG_ENDIAN'" if order is None else order.text

    def ordered(digits: str) -> str:
        little = f"concat({', '.join(f'substring({digits}, {place}, 2)' for place in range(2 * size - 1, 0, -2))})"
        by = f"CASE WHEN {word} = 'BIG_ENDIAN' THEN {digits} WHEN {word} = 'LITTLE_ENDIAN' THEN {little} END"
        made = {"'BIG_ENDIAN'": digits, "'LITTLE_ENDIAN'": little}.get(word, by)
        return f"CASE WHEN length({digits}) = {2 * size} THEN {made} END"

    return let(f"hex({of.text})", "_digits", ordered)


def _int_from_bytes(*given: Sql) -> str:
    # As 8 bytes, with the sign in all of the upper ones.
    def signed(digits: str) -> str:
        upper = f"CASE WHEN {digits} >= '8' THEN 'FFFFFFFF' ELSE '' END"
        return f"cast(conv(concat({upper}, {digits}), 16, -10) AS int)"

    return let(_digits(4, *given), "_ordered", signed)


def _bigint_from_bytes(*given: Sql) -> str:
    return f"cast(conv({_digits(8, *given)}, 16, -10) AS bigint)"


def _double_from_bytes(*given: Sql) -> str:
    return let(_digits(8, *given), "_ordered", _double)


def _double(digits: str) -> str:
    """A number of its bytes: a sign, 11 bits of an exponent and 52 of a fraction, by IEEE 754."""
    first = f"cast(conv(left({digits}, 3), 16, 10) AS int)"
    sign = f"CASE WHEN {first} >= 2048 THEN -1 ELSE 1 END"
    fraction = f"cast(conv(substring({digits}, 4), 16, 10) AS double) / 4503599627370496"
    special = f"CASE WHEN ({fraction}) = 0 THEN ({sign}) * cast('Infinity' AS double) ELSE cast('NaN' AS double) END"
    small = f"({sign}) * ({fraction}) * power(cast(2 AS double), -1022)"
    usual = f"({sign}) * (1 + {fraction}) * power(cast(2 AS double), {first} % 2048 - 1023)"
    return f"CASE WHEN {first} % 2048 = 2047 THEN {special} WHEN {first} % 2048 = 0 THEN {small} ELSE {usual} END"


def _uuid(of: Sql) -> str:
    places = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))

    def parts(digits: str) -> str:
        made = ", '-', ".join(f"substring({digits}, {start}, {length})" for start, length in places)
        return f"CASE WHEN length({digits}) = 32 THEN concat({made}) END"

    return let(f"lower(hex({of.text}))", "_digits", parts)


def joined_bytes(by: Sql, *parts: Sql) -> str:
    """Return CONCAT_WS of bytes; Spark's concat_ws is for texts alone."""
    some = f"filter(array({', '.join(part.text for part in parts)}), _part -> _part IS NOT NULL)"
    step = f"CASE WHEN _made IS NULL THEN _part ELSE concat(_made, {by.text}, _part) END"
    made = f"aggregate({some}, cast(NULL AS binary), (_made, _part) -> {step})"
    return f"CASE WHEN {by.text} IS NOT NULL THEN coalesce({made}, {EMPTY}) END"


def split_bytes(of: Sql, by: Sql) -> str:
    """Return SPLIT of bytes: of a text that has a character for each byte; by nothing, each byte."""
    texts = [f"decode({one.text}, 'ISO-8859-1')" for one in (of, by)]
    parts = f"split({texts[0]}, concat('\\\\Q', {texts[1]}, '\\\\E'), -1)"
    apart = f"split({texts[0]}, '(?s)(?<=.)(?=.)', -1)"
    made = f"CASE WHEN length({by.text}) = 0 THEN {apart} ELSE {parts} END"
    return f"transform({made}, _part -> encode(_part, 'ISO-8859-1'))"


FUNCTIONS: tuple[Function, ...] = (
    function(
        "ENCODE", _FAMILY, "text text text", _encoded, k.STRING,
        ("ENCODE('hello', 'utf8', 'base64')", "aGVsbG8="), ("ENCODE('jk', 'ascii', 'hex')", "6a6b"),
        ("ENCODE('0x68656c6c6f', 'hex', 'utf8')", "hello"), ("ENCODE('X''6869''', 'hex', 'utf8')", "hi"),
        ("ENCODE('686', 'hex', 'utf8')", None), ("ENCODE('zz', 'hex', 'utf8')", None),
        ("ENCODE('0x', 'hex', 'utf8')", ""), ("ENCODE('X''68', 'hex', 'utf8')", None),
        ("ENCODE('\u00e9', 'ascii', 'hex')", "3f"), ("ENCODE('e9', 'hex', 'ascii')", "\ufffd"),
    ),
    function(
        "TO_BYTES", _FAMILY, "text text", _to_bytes, k.BYTES, ("TO_BYTES('aGk=', 'base64')", "aGk="),
        ("TO_BYTES('hi', 'utf8')", "aGk="), ("TO_BYTES('6869', 'hex')", "aGk="),
        ("TO_BYTES('!!aGk=', 'base64')", None), ("TO_BYTES('aGk', 'base64')", "aGk="),
        ("TO_BYTES('a', 'base64')", None),
    ),
    function(
        "FROM_BYTES", _FAMILY, "bytes text", lambda of, encoding: _from_bytes(of.text, encoding), k.STRING,
        ("FROM_BYTES(TO_BYTES('hi', 'utf8'), 'utf8')", "hi"), ("FROM_BYTES(TO_BYTES('jk', 'utf8'), 'hex')", "6A6B"),
    ),
    function(
        "INT_FROM_BYTES", _FAMILY, "bytes text?", _int_from_bytes, k.INTEGER,
        ("INT_FROM_BYTES(TO_BYTES('00000102', 'hex'))", 258), ("INT_FROM_BYTES(TO_BYTES('FFFFFFFF', 'hex'))", -1),
        ("INT_FROM_BYTES(TO_BYTES('02010000', 'hex'), 'LITTLE_ENDIAN')", 258),
        ("INT_FROM_BYTES(TO_BYTES('0102', 'hex'))", None),
    ),
    function(
        "BIGINT_FROM_BYTES", _FAMILY, "bytes text?", _bigint_from_bytes, k.BIGINT,
        ("BIGINT_FROM_BYTES(TO_BYTES('0000000000000102', 'hex'))", 258),
        ("BIGINT_FROM_BYTES(TO_BYTES('FFFFFFFFFFFFFFFF', 'hex'))", -1),
        ("BIGINT_FROM_BYTES(TO_BYTES('0201000000000000', 'hex'), 'LITTLE_ENDIAN')", 258),
    ),
    function(
        "DOUBLE_FROM_BYTES", _FAMILY, "bytes text?", _double_from_bytes, k.DOUBLE,
        ("DOUBLE_FROM_BYTES(TO_BYTES('C008000000000000', 'hex'))", -3.0),
        ("DOUBLE_FROM_BYTES(TO_BYTES('000000000000F03F', 'hex'), 'LITTLE_ENDIAN')", 1.0),
        ("DOUBLE_FROM_BYTES(TO_BYTES('0000000000000000', 'hex'))", 0.0),
    ),
    function(
        "UUID", _FAMILY, "bytes", _uuid, k.STRING,
        ("UUID(TO_BYTES('00112233445566778899AABBCCDDEEFF', 'hex'))", "00112233-4455-6677-8899-aabbccddeeff"),
        differs="the form without an argument gives another value each time, and a replay would give another table",
    ),
)  # fmt: skip
