"""JSON to a row and back: which values fit which type.

The rules are those of Spark's from_json (PERMISSIVE, with a column for the corrupt record), which decodes most
records; this is the same in Python, for the model and for the records that Spark hands over one by one.

| column      | accepted values                                                                              |
|-------------|----------------------------------------------------------------------------------------------|
| any         | null; a missing field is null; other fields are left out                                     |
| integers    | JSON integers in the type's range; not 1.0, not "1", not true                                |
| double      | numbers; NaN, Infinity and -Infinity, in quotes or bare                                      |
| decimal     | numbers, also as text, rounded half up to the scale; too many digits are unfit               |
| string      | texts; true and objects as their JSON, without blanks; numbers as they are written: 1.50     |
| timestamp   | ISO text, in UTC unless it names a zone; an integer means epoch *seconds*                    |
| date        | ISO text                                                                                     |
| binary      | base64 text                                                                                  |

Names are case-sensitive; of a repeated field the last value counts, and both must fit.

As ksqlDB reads JSON ("any case") names are not case-sensitive, a number may stand in quotes, and 1.7 is the integer 1.
A key of one column may stand without an object around it: `lakehouse.formats.json_key`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from sqlglot import exp

from lakehouse.formats.json_text import JsonNumber, Members, no_surrogates, parse, parse_value, write, write_parsed
from lakehouse.formats.text_value import (
    INTEGER_BITS,
    NOT_FINITE,
    decimal_parts,
    float32,
    integer_in_range,
    parse_binary,
    parse_date,
    parse_decimal,
    parse_timestamp,
)
from lakehouse.formats.unfit import Unfit, check_length, expected, utf8
from lakehouse.plan.schema import Column, base_type, parse_type
from lakehouse.semantics.number_text import NUMBER, exact, whole_part

UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)

JsonReader = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"[+-]?[0-9]+")


def decode(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row in a JSON object; None for the literal null, which is a null value. Raises Unfit."""
    parsed = parse(utf8(data))
    if parsed is None:
        return None
    return decode_members(parsed, columns, any_case=False)


def decode_any_case(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """As `decode`, for fields whose names may be in any case, inside structs too."""
    parsed = parse(utf8(data))
    if parsed is None:
        return None
    return decode_members(parsed, columns, any_case=True)


def decode_members(members: Members, columns: tuple[Column, ...], *, any_case: bool) -> dict[str, Any]:
    """Return the row in a parsed object. any_case: for fields whose names may be in any case. Raises Unfit."""
    if not any_case:
        return _object(members, {column.name: reader(column.type) for column in columns})
    names = {upper(column.name): column.name for column in columns}
    row = _object(_upper(members), {upper(column.name): reader(column.type, any_case=True) for column in columns})
    return {names[name]: value for name, value in row.items()}


def decode_bare(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of a JSON value that is the one column's, without an object around it. As `decode_any_case`."""
    parsed, (column,) = parse_value(utf8(data)), columns
    if parsed is None:
        return None
    try:
        return {column.name: reader(column.type, any_case=True)(parsed)}
    except Unfit as error:
        raise Unfit(f"{column.name}: {error}") from error


def encode_bare(row: dict[str, Any], columns: tuple[Column, ...]) -> bytes:
    """Return the one column's value as compact JSON."""
    return write(row.get(columns[0].name)).encode("utf-8")


def encode(row: dict[str, Any], columns: tuple[Column, ...]) -> bytes:
    """Return a row as a compact JSON object with these columns, in this order."""
    return write({column.name: row.get(column.name) for column in columns}).encode("utf-8")


def upper(name: str) -> str:
    """Return a name in upper case: of ASCII's letters, as Spark's patterns have it."""
    return name.translate(UPPER)


def _upper(members: Any) -> Any:
    return Members((upper(name), value) for name, value in members)


def _object(members: Members, readers: dict[str, JsonReader]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(readers)
    for name, value in members:
        if (read := readers.get(name)) is not None:
            try:
                row[name] = None if value is None else read(value)
            except Unfit as error:
                raise Unfit(f"field {name}: {error}") from error
    return row


@lru_cache(maxsize=1024)
def reader(kind: str, *, any_case: bool = False) -> JsonReader:
    """Return the function from a parsed JSON value, not null, to a value of the type; it raises Unfit.

    any_case: as ksqlDB reads it; a struct's fields are found in whatever case their names are.
    """
    base = base_type(kind)
    if any_case and (base in INTEGER_BITS or base in ("double", "float")):
        strict = reader(kind)
        return lambda value: strict(_unquoted(value, whole=base in INTEGER_BITS))
    if base in INTEGER_BITS:
        return lambda value: _integer(value, base)
    match base:
        case "string":
            return _string
        case "boolean":
            return _boolean
        case "double":
            return lambda value: _double(value, base)
        case "float":
            return lambda value: float32(_double(value, base))
        case "decimal":
            precision, scale = decimal_parts(kind)
            return lambda value: _decimal(value, precision, scale)
        case "timestamp":
            return _timestamp
        case "date":
            return lambda value: parse_date(_text(value, "date"))
        case "binary":
            return lambda value: parse_binary(_text(value, "base64"))
    return _nested(parse_type(kind), base, kind, any_case)


def _nested(tree: exp.DataType, base: str, kind: str, any_case: bool) -> JsonReader:
    if base == "struct":
        readers = {item.name: reader(item.args["kind"].sql("spark"), any_case=any_case) for item in tree.expressions}
        if not any_case:
            return lambda value: _object(_members(value, kind), readers)
        names = {name.translate(UPPER): name for name in readers}
        upper = {name.translate(UPPER): read for name, read in readers.items()}
        return lambda value: {names[name]: of for name, of in _object(_upper(_members(value, kind)), upper).items()}
    inner = [reader(item.sql("spark"), any_case=any_case) for item in tree.expressions]
    if base == "array":
        return lambda value: [None if item is None else inner[0](item) for item in _list(value, kind)]
    # The names in a JSON object are texts, so the key of a map is a string, whatever its declared type.
    return lambda value: {no_surrogates(n): None if v is None else inner[1](v) for n, v in _members(value, kind)}


def _unquoted(value: Any, *, whole: bool) -> Any:
    """A number that stands in quotes, or is to be cut off, as a number; anything else as it is."""
    if not isinstance(value, str) or value in NOT_FINITE:
        return value
    if not isinstance(value, JsonNumber):
        text = value if whole else value.strip()
        if not (_WHOLE if whole else NUMBER).fullmatch(text):
            return value
        check_length(text)
        value = JsonNumber(text)
    if whole and not _WHOLE.fullmatch(value):
        cut = whole_part(exact(value))
        return value if cut is None else JsonNumber(cut)
    return value


def _integer(value: Any, kind: str) -> int:
    if not isinstance(value, JsonNumber) or not _WHOLE.fullmatch(value):
        raise expected(kind, _shown(value))
    return integer_in_range(int(value), kind)


def _double(value: Any, kind: str) -> float:
    if isinstance(value, JsonNumber | float):
        number = float(value)  # infinite beyond the largest double
        return (
            0.0 if not number and isinstance(value, JsonNumber) and _WHOLE.fullmatch(value) else number
        )  # -0 is whole
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    raise expected(kind, _shown(value))


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if not isinstance(value, str):
        raise expected(f"decimal({precision}, {scale})", _shown(value))
    # In a text, Spark drops the commas of "1,234.50".
    return parse_decimal(value if isinstance(value, JsonNumber) else value.replace(",", ""), precision, scale)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise expected("boolean", _shown(value))
    return value


def _string(value: Any) -> str:
    return no_surrogates(value) if isinstance(value, str) else write_parsed(value)


def _timestamp(value: Any) -> datetime:
    if isinstance(value, JsonNumber) and _WHOLE.fullmatch(value):
        try:
            return _EPOCH + timedelta(seconds=int(value))
        except OverflowError as error:
            raise expected("timestamp (an integer is epoch seconds)", _shown(value)) from error
    return parse_timestamp(_text(value, "timestamp"))


def _text(value: Any, kind: str) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise expected(kind, _shown(value))
    return value


def _members(value: Any, kind: str) -> Members:
    if not isinstance(value, Members):
        raise expected(kind, _shown(value))
    return value


def _list(value: Any, kind: str) -> list[Any]:
    if not isinstance(value, list):
        raise expected(kind, _shown(value))
    return value


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) and not isinstance(value, JsonNumber) else write_parsed(value)
