"""JSON to a row and back: which values fit which type.

The rules are those of Spark's from_json (PERMISSIVE, with a column for the corrupt record), which decodes most
records. This module applies them in Python, for the model and for the records that Spark hands over one by one.

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

Names are case-sensitive. If a field is repeated, its last value counts, and all of its values must fit.

In ksqlDB's reading of JSON ("any case"), names are case-insensitive, a number may be quoted, and 1.7 is the integer 1.
A key of one column may stand without an object around it: `lakehouse.formats.values.json_key`.
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

from lakehouse.formats.values.json_text import (
    JsonNumber,
    Members,
    parse_object,
    parse_value,
    write_json,
    write_parsed,
)
from lakehouse.formats.values.text_value import (
    INTEGER_BITS,
    NOT_FINITE,
    check_integer_range,
    float32_of_text,
    parse_binary,
    parse_date,
    parse_decimal,
    parse_timestamp,
    precision_and_scale,
    round_to_float32,
)
from lakehouse.formats.values.unfit import Unfit, check_number_length, decode_utf8, unfit_value
from lakehouse.plan.expression.schema import Column, base_type, parse_type
from lakehouse.semantics.number_text import NUMBER, exact_decimal, whole_part
from lakehouse.semantics.surrogates import replace_surrogates

UPPER_ASCII = str.maketrans(ascii_lowercase, ascii_uppercase)

JsonReader = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"[+-]?[0-9]+")


def decode_object(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row in a JSON object; None for the literal null, which is a null value. Raises Unfit."""
    parsed = parse_object(decode_utf8(data))
    if parsed is None:
        return None
    return decode_members(parsed, columns, any_case=False)


def decode_any_case(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Decode as `decode_object` does, with names of fields in any case, inside structs too."""
    parsed = parse_object(decode_utf8(data))
    if parsed is None:
        return None
    return decode_members(parsed, columns, any_case=True)


def decode_members(parsed_members: Members, columns: tuple[Column, ...], *, any_case: bool) -> dict[str, Any]:
    """Return the row in a parsed object. any_case: accept names of fields in any case. Raises Unfit."""
    if not any_case:
        return _row_of_members(parsed_members, {column.name: json_reader(column.type) for column in columns})
    column_names = {upper_ascii(column.name): column.name for column in columns}
    row = _row_of_members(
        _upper_members(parsed_members),
        {upper_ascii(column.name): json_reader(column.type, any_case=True) for column in columns},
    )
    return {column_names[name]: value for name, value in row.items()}


def decode_bare_value(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of a JSON value that is the only column's, without an object around it; see `decode_any_case`."""
    parsed_value, (column,) = parse_value(decode_utf8(data)), columns
    if parsed_value is None:
        return None
    try:
        return {column.name: json_reader(column.type, any_case=True)(parsed_value)}
    except Unfit as error:
        raise Unfit(f"{column.name}: {error}") from error


def encode_bare_value(row: dict[str, Any], columns: tuple[Column, ...]) -> bytes:
    """Return the only column's value as compact JSON."""
    return write_json(row.get(columns[0].name)).encode("utf-8")


def encode_object(row: dict[str, Any], columns: tuple[Column, ...]) -> bytes:
    """Return these columns of a row, in this order, as a compact JSON object."""
    return write_json({column.name: row.get(column.name) for column in columns}).encode("utf-8")


def upper_ascii(name: str) -> str:
    """Return a name with its ASCII letters in upper case, which is how Spark's patterns compare names."""
    return name.translate(UPPER_ASCII)


def _upper_members(members: Any) -> Any:
    return Members((upper_ascii(name), value) for name, value in members)


def _row_of_members(members: Members, readers: dict[str, JsonReader]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(readers)
    for name, value in members:
        if (read_value := readers.get(name)) is not None:
            try:
                row[name] = None if value is None else read_value(value)
            except Unfit as error:
                raise Unfit(f"field {name}: {error}") from error
    return row


@lru_cache(maxsize=1024)
def json_reader(type_text: str, *, any_case: bool = False) -> JsonReader:
    """Return the function that converts a parsed JSON value, not null, to a value of the type; it raises Unfit.

    any_case: convert as ksqlDB does, and match the names of a struct's fields in any case.
    """
    base_name = base_type(type_text)
    if any_case and (base_name in INTEGER_BITS or base_name in ("double", "float")):
        strict_reader = json_reader(type_text)
        return lambda value: strict_reader(_unquote_number(value, is_whole=base_name in INTEGER_BITS))
    if base_name in INTEGER_BITS:
        return lambda value: _json_integer(value, base_name)
    match base_name:
        case "string":
            return _json_string
        case "boolean":
            return _json_boolean
        case "double":
            return lambda value: _json_double(value, base_name)
        case "float":
            return _json_float
        case "decimal":
            precision, scale = precision_and_scale(type_text)
            return lambda value: _json_decimal(value, precision, scale)
        case "timestamp":
            return _json_timestamp
        case "date":
            return lambda value: parse_date(require_text(value, "date"))
        case "binary":
            return lambda value: parse_binary(require_text(value, "base64"))
    return _nested_reader(parse_type(type_text), base_name, type_text, any_case)


def _nested_reader(type_tree: exp.DataType, base_name: str, type_text: str, any_case: bool) -> JsonReader:
    if base_name == "struct":
        member_readers = {
            type_node.name: json_reader(type_node.args["kind"].sql("spark"), any_case=any_case)
            for type_node in type_tree.expressions
        }
        if not any_case:
            return lambda value: _row_of_members(require_members(value, type_text), member_readers)
        member_names = {name.translate(UPPER_ASCII): name for name in member_readers}
        upper_readers = {name.translate(UPPER_ASCII): member_reader for name, member_reader in member_readers.items()}
        return lambda value: {
            member_names[name]: member_value
            for name, member_value in _row_of_members(
                _upper_members(require_members(value, type_text)), upper_readers
            ).items()
        }
    item_readers = [json_reader(type_node.sql("spark"), any_case=any_case) for type_node in type_tree.expressions]
    if base_name == "array":
        return lambda value: [
            None if type_node is None else item_readers[0](type_node) for type_node in require_list(value, type_text)
        ]
    # The names in a JSON object are texts, so the key of a map is a string, whatever its declared type.
    return lambda value: {
        replace_surrogates(key_name): None if map_value is None else item_readers[1](map_value)
        for key_name, map_value in require_members(value, type_text)
    }


def _unquote_number(value: Any, *, is_whole: bool) -> Any:
    """Return a quoted number as a number, without its fraction if `is_whole`; return anything else unchanged."""
    if not isinstance(value, str) or value in NOT_FINITE:
        return value
    if not isinstance(value, JsonNumber):
        number_text = value if is_whole else value.strip()
        if not (_WHOLE if is_whole else NUMBER).fullmatch(number_text):
            return value
        check_number_length(number_text)
        value = JsonNumber(number_text)
    if is_whole and not _WHOLE.fullmatch(value):
        whole_text = whole_part(exact_decimal(value))
        return value if whole_text is None else JsonNumber(whole_text)
    return value


def _json_integer(value: Any, kind: str) -> int:
    if not isinstance(value, JsonNumber) or not _WHOLE.fullmatch(value):
        raise unfit_value(kind, json_for_reason(value))
    return check_integer_range(int(value), kind)


def _json_double(value: Any, kind: str) -> float:
    if isinstance(value, JsonNumber | float):
        number = float(value)  # infinite beyond the largest double
        return (
            0.0 if not number and isinstance(value, JsonNumber) and _WHOLE.fullmatch(value) else number
        )  # -0 is whole
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    raise unfit_value(kind, json_for_reason(value))


def _json_float(value: Any) -> float:
    number = _json_double(value, "float")
    return float32_of_text(value, number) if isinstance(value, JsonNumber) else round_to_float32(number)


def _json_decimal(value: Any, precision: int, scale: int) -> Decimal:
    if not isinstance(value, str):
        raise unfit_value(f"decimal({precision}, {scale})", json_for_reason(value))
    # In a text, Spark drops the commas of "1,234.50".
    return parse_decimal(value if isinstance(value, JsonNumber) else value.replace(",", ""), precision, scale)


def _json_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise unfit_value("boolean", json_for_reason(value))
    return value


def _json_string(value: Any) -> str:
    return replace_surrogates(value) if isinstance(value, str) else write_parsed(value)


def _json_timestamp(value: Any) -> datetime:
    if isinstance(value, JsonNumber) and _WHOLE.fullmatch(value):
        try:
            return _EPOCH + timedelta(seconds=int(value))
        except OverflowError as error:
            raise unfit_value("timestamp (an integer is epoch seconds)", json_for_reason(value)) from error
    return parse_timestamp(require_text(value, "timestamp"))


def require_text(value: Any, kind: str) -> str:
    """Return a parsed value that is a text; raise Unfit, with the kind that was expected, for another."""
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise unfit_value(kind, json_for_reason(value))
    return value


def require_members(value: Any, kind: str) -> Members:
    """Return a parsed value that is an object; raise Unfit for another."""
    if not isinstance(value, Members):
        raise unfit_value(kind, json_for_reason(value))
    return value


def require_list(value: Any, kind: str) -> list[Any]:
    """Return a parsed value that is an array; raise Unfit for another."""
    if not isinstance(value, list):
        raise unfit_value(kind, json_for_reason(value))
    return value


def json_for_reason(value: Any) -> str:
    """Return a parsed value as a reason shows it."""
    return repr(value) if isinstance(value, str) and not isinstance(value, JsonNumber) else write_parsed(value)
