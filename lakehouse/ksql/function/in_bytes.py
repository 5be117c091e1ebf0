"""Functions of bytes: as texts in an encoding, and as numbers."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.function.sql import Sql, let_sql, text_literal
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"
_ENCODINGS = ("hex", "utf8", "ascii", "base64")
# A pattern for characters that ASCII lacks, as a text literal of Spark SQL.
_NOT_ASCII = "'[^\\\\x00-\\\\x7F]'"
_BASE64 = "^[A-Za-z0-9+/]*={0,2}(?!.|\\\\n)"
# A pattern for the next part of bytes, each as the character with its code: ASCII, a longer character in UTF-8, or what
# Java replaces by one character: the begin of a longer one, half of a pair, or any other byte.
_UTF8_PART = (
    "[\\x00-\\x7F]+|[\\xC2-\\xDF][\\x80-\\xBF]|\\xE0[\\xA0-\\xBF][\\x80-\\xBF]?|[\\xE1-\\xEF][\\x80-\\xBF]{1,2}|"
    "\\xF0[\\x90-\\xBF][\\x80-\\xBF]{0,2}|[\\xF1-\\xF3][\\x80-\\xBF]{1,3}|\\xF4[\\x80-\\x8F][\\x80-\\xBF]{0,2}|"
    "[\\x80-\\xFF]"
)
EMPTY = "cast('' AS binary)"
BYTES_OF_A = "TO_BYTES('a', 'utf8')"


def _by_encoding(encoding: Sql, function_name: str, make_text: Callable[[str], str]) -> str:
    """Return Spark SQL for the encoding of a literal, or a CASE over the encoding of each record."""
    if encoding.literal is None:
        cases = " ".join(
            f"WHEN lower({encoding.text}) = '{encoding_name}' THEN {make_text(encoding_name)}"
            for encoding_name in _ENCODINGS
        )
        return f"CASE {cases} END"
    if encoding.literal.lower() not in _ENCODINGS:
        raise SqlError(f"{function_name}: the encoding is one of {', '.join(_ENCODINGS)}")
    return make_text(encoding.literal.lower())


def _decode_text(text_value: Sql, encoding: Sql) -> str:
    return _by_encoding(encoding, "TO_BYTES", lambda encoding_name: _as_bytes(text_value, encoding_name))


def _as_bytes(text_value: Sql, encoding: str) -> str:
    match encoding:
        case "hex":
            return let_sql(text_value.text, "_digits", _unhex_text)
        case "base64":
            return let_sql(text_value.text, "_written", from_base64)
        case "ascii":
            return f"encode(regexp_replace({text_value.text}, {_NOT_ASCII}, '?'), 'UTF-8')"
    return f"encode({text_value.text}, 'UTF-8')"


def from_base64(text: str) -> str:
    """Return the bytes; null for a text with characters that are not base64's, which Spark would skip."""
    ends = f"(length({text}) % 4 = 0 OR ({text} NOT LIKE '%=' AND length({text}) % 4 > 1))"
    return f"CASE WHEN {text} RLIKE '{_BASE64}' AND {ends} THEN unbase64({text}) END"


def _unhex_text(text: str) -> str:
    quoted_digits = f"substring({text}, 3, length({text}) - 3)"
    bare_digits = (
        f"CASE WHEN {text} RLIKE '^[xX]\\'.*\\'$' THEN {quoted_digits} ELSE regexp_replace({text}, '^0x', '') END"
    )
    # Only after 0x is an odd number of digits valid; unhex always takes it.
    return f"CASE WHEN length({bare_digits}) % 2 = 0 OR {text} LIKE '0x%' THEN unhex({bare_digits}) END"


def _from_bytes(bytes_text: str, encoding: Sql) -> str:
    return _by_encoding(encoding, "FROM_BYTES", lambda encoding_name: _as_text(bytes_text, encoding_name))


def _as_text(bytes_text: str, encoding: str) -> str:
    match encoding:
        case "hex":
            return f"hex({bytes_text})"
        case "base64":
            return f"base64({bytes_text})"
        case "ascii":
            # ASCII's bytes are the same in ISO-8859-1; every other byte becomes the replacement character.
            return f"regexp_replace(decode({bytes_text}, 'ISO-8859-1'), {_NOT_ASCII}, '\ufffd')"
    return let_sql(bytes_text, "_bytes", _utf8_text)


def _utf8_text(bytes_text: str) -> str:
    """Return the text of UTF-8, with Java's replacement characters for other bytes, which decode fails on."""
    parts = f"regexp_extract_all(decode({bytes_text}, 'ISO-8859-1'), {text_literal(_UTF8_PART)}, 0)"
    part_text = "coalesce(decode(encode(_part, 'ISO-8859-1'), 'UTF-8'), '\ufffd')"
    return f"coalesce(decode({bytes_text}, 'UTF-8'), array_join(transform({parts}, _part -> {part_text}), ''))"


def _encode_text(text_value: Sql, input_encoding: Sql, output_encoding: Sql) -> str:
    """Return ENCODE, which writes hexadecimal digits in lower case; FROM_BYTES writes them in upper case."""
    decoded_bytes = _decode_text(text_value, input_encoding)

    def in_encoding(name: str) -> str:
        return f"lower({_as_text(decoded_bytes, name)})" if name == "hex" else _as_text(decoded_bytes, name)

    return _by_encoding(output_encoding, "ENCODE", in_encoding)


def _hex_digits(size: int, bytes_value: Sql, order: Sql | None = None) -> str:
    """Return the hexadecimal digits of a number, the most significant first; null unless it has `size` bytes."""
    if order is not None and order.literal not in (None, "BIG_ENDIAN", "LITTLE_ENDIAN"):
        raise SqlError("the order of the bytes is 'BIG_ENDIAN' or 'LITTLE_ENDIAN'")
    word = "'BIG_ENDIAN'" if order is None else order.text

    def ordered(digits: str) -> str:
        little = f"concat({', '.join(f'substring({digits}, {place}, 2)' for place in range(2 * size - 1, 0, -2))})"
        choice = f"CASE WHEN {word} = 'BIG_ENDIAN' THEN {digits} WHEN {word} = 'LITTLE_ENDIAN' THEN {little} END"
        ordered_digits = {"'BIG_ENDIAN'": digits, "'LITTLE_ENDIAN'": little}.get(word, choice)
        return f"CASE WHEN length({digits}) = {2 * size} THEN {ordered_digits} END"

    return let_sql(f"hex({bytes_value.text})", "_digits", ordered)


def _int_from_bytes(*arguments: Sql) -> str:
    # Extended to 8 bytes: the sign fills all upper bytes.
    def signed(digits: str) -> str:
        upper = f"CASE WHEN {digits} >= '8' THEN 'FFFFFFFF' ELSE '' END"
        return f"cast(conv(concat({upper}, {digits}), 16, -10) AS int)"

    return let_sql(_hex_digits(4, *arguments), "_ordered", signed)


def _bigint_from_bytes(*arguments: Sql) -> str:
    return f"cast(conv({_hex_digits(8, *arguments)}, 16, -10) AS bigint)"


def _double_from_bytes(*arguments: Sql) -> str:
    return let_sql(_hex_digits(8, *arguments), "_ordered", _double_of_digits)


def _double_of_digits(digits: str) -> str:
    """Return a DOUBLE from its bytes: by IEEE 754 a sign, 11 bits of an exponent and 52 of a fraction."""
    upper = f"cast(conv(left({digits}, 3), 16, 10) AS int)"
    sign = f"CASE WHEN {upper} >= 2048 THEN -1 ELSE 1 END"
    fraction = f"cast(conv(substring({digits}, 4), 16, 10) AS double) / 4503599627370496"
    special = f"CASE WHEN ({fraction}) = 0 THEN ({sign}) * cast('Infinity' AS double) ELSE cast('NaN' AS double) END"
    subnormal = f"({sign}) * ({fraction}) * power(cast(2 AS double), -1022)"
    normal = f"({sign}) * (1 + {fraction}) * power(cast(2 AS double), {upper} % 2048 - 1023)"
    return f"CASE WHEN {upper} % 2048 = 2047 THEN {special} WHEN {upper} % 2048 = 0 THEN {subnormal} ELSE {normal} END"


def _uuid_text(bytes_value: Sql) -> str:
    part_places = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))

    def parts(digits: str) -> str:
        joined_parts = ", '-', ".join(f"substring({digits}, {start}, {length})" for start, length in part_places)
        return f"CASE WHEN length({digits}) = 32 THEN concat({joined_parts}) END"

    return let_sql(f"lower(hex({bytes_value.text}))", "_digits", parts)


def join_bytes(separator: Sql, *parts: Sql) -> str:
    """Return CONCAT_WS of bytes; Spark's concat_ws takes only texts."""
    present_parts = f"filter(array({', '.join(part.text for part in parts)}), _part -> _part IS NOT NULL)"
    join_step = f"CASE WHEN _made IS NULL THEN _part ELSE concat(_made, {separator.text}, _part) END"
    joined = f"aggregate({present_parts}, cast(NULL AS binary), (_made, _part) -> {join_step})"
    return f"CASE WHEN {separator.text} IS NOT NULL THEN coalesce({joined}, {EMPTY}) END"


def split_bytes(bytes_value: Sql, separator: Sql) -> str:
    """Return SPLIT of bytes, by way of a text with a character a byte; an empty separator splits off each byte."""
    argument_texts = [f"decode({argument.text}, 'ISO-8859-1')" for argument in (bytes_value, separator)]
    parts = f"split({argument_texts[0]}, concat('\\\\Q', {argument_texts[1]}, '\\\\E'), -1)"
    single_bytes = f"split({argument_texts[0]}, '(?s)(?<=.)(?=.)', -1)"
    split_parts = f"CASE WHEN length({separator.text}) = 0 THEN {single_bytes} ELSE {parts} END"
    return f"transform({split_parts}, _part -> encode(_part, 'ISO-8859-1'))"


FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "ENCODE", _FAMILY, "text text text", _encode_text, k.STRING,
        ("ENCODE('hello', 'utf8', 'base64')", "aGVsbG8="), ("ENCODE('jk', 'ascii', 'hex')", "6a6b"),
        ("ENCODE('0x68656c6c6f', 'hex', 'utf8')", "hello"), ("ENCODE('X''6869''', 'hex', 'utf8')", "hi"),
        ("ENCODE('686', 'hex', 'utf8')", None), ("ENCODE('zz', 'hex', 'utf8')", None),
        ("ENCODE('0x', 'hex', 'utf8')", ""), ("ENCODE('X''68', 'hex', 'utf8')", None),
        ("ENCODE('\u00e9', 'ascii', 'hex')", "3f"), ("ENCODE('e9', 'hex', 'ascii')", "\ufffd"),
        ("ENCODE('41ff42', 'hex', 'utf8')", "A\ufffdB"), ("ENCODE(CAST(NULL AS VARCHAR), 'hex', 'utf8')", None),
    ),
    define_function(
        "TO_BYTES", _FAMILY, "text text", _decode_text, k.BYTES, ("TO_BYTES('aGk=', 'base64')", "aGk="),
        ("TO_BYTES('hi', 'utf8')", "aGk="), ("TO_BYTES('6869', 'hex')", "aGk="),
        ("TO_BYTES('!!aGk=', 'base64')", None), ("TO_BYTES('aGk', 'base64')", "aGk="),
        ("TO_BYTES('a', 'base64')", None),
    ),
    define_function(
        "FROM_BYTES", _FAMILY, "bytes text", lambda value, encoding: _from_bytes(value.text, encoding), k.STRING,
        ("FROM_BYTES(TO_BYTES('hi', 'utf8'), 'utf8')", "hi"), ("FROM_BYTES(TO_BYTES('jk', 'utf8'), 'hex')", "6A6B"),
        *(
            (f"FROM_BYTES(TO_BYTES('{digits}', 'hex'), 'utf8')", text)
            for digits, text in (
                ("c3a9e282acf09f9880", "\u00e9\u20ac\U0001f600"), ("61c3a90aff62", "a\u00e9\n\ufffdb"),
                ("c080c3", "\ufffd" * 3), ("e28241e282", "\ufffdA\ufffd"), ("eda08041", "\ufffdA"),
                ("e080", "\ufffd" * 2), ("f09f98f0809f", "\ufffd" * 4), ("f490f180", "\ufffd" * 3), ("", ""),
            )
        ),
    ),
    define_function(
        "INT_FROM_BYTES", _FAMILY, "bytes text?", _int_from_bytes, k.INTEGER,
        ("INT_FROM_BYTES(TO_BYTES('00000102', 'hex'))", 258), ("INT_FROM_BYTES(TO_BYTES('FFFFFFFF', 'hex'))", -1),
        ("INT_FROM_BYTES(TO_BYTES('02010000', 'hex'), 'LITTLE_ENDIAN')", 258),
        ("INT_FROM_BYTES(TO_BYTES('0102', 'hex'))", None),
    ),
    define_function(
        "BIGINT_FROM_BYTES", _FAMILY, "bytes text?", _bigint_from_bytes, k.BIGINT,
        ("BIGINT_FROM_BYTES(TO_BYTES('0000000000000102', 'hex'))", 258),
        ("BIGINT_FROM_BYTES(TO_BYTES('FFFFFFFFFFFFFFFF', 'hex'))", -1),
        ("BIGINT_FROM_BYTES(TO_BYTES('0201000000000000', 'hex'), 'LITTLE_ENDIAN')", 258),
    ),
    define_function(
        "DOUBLE_FROM_BYTES", _FAMILY, "bytes text?", _double_from_bytes, k.DOUBLE,
        ("DOUBLE_FROM_BYTES(TO_BYTES('C008000000000000', 'hex'))", -3.0),
        ("DOUBLE_FROM_BYTES(TO_BYTES('000000000000F03F', 'hex'), 'LITTLE_ENDIAN')", 1.0),
        ("DOUBLE_FROM_BYTES(TO_BYTES('0000000000000000', 'hex'))", 0.0),
    ),
    define_function(
        "UUID", _FAMILY, "bytes", _uuid_text, k.STRING,
        ("UUID(TO_BYTES('00112233445566778899AABBCCDDEEFF', 'hex'))", "00112233-4455-6677-8899-aabbccddeeff"),
        differs="the form without an argument gives another value each time, and a replay would give another table",
    ),
)  # fmt: skip
