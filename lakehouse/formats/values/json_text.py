"""JSON text: parsed strictly, without losing anything meaningful, and written compactly.

A parsed object is `Members`: its fields in order, duplicates included. A number is a `JsonNumber`: its text, so that
nothing is lost or computed before the column's type is known. A `float` is one of NaN, Infinity and -Infinity: they
are not JSON, but Python's encoder and others write them, and Spark reads them.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from lakehouse.formats.values.unfit import Unfit, check_number_length, clip_text
from lakehouse.semantics.blanks import JSON_BLANKS
from lakehouse.semantics.java_double import java_double
from lakehouse.semantics.surrogates import escape_surrogates

_DEPTH_MAX = 1000  # the same limit as in Jackson, Spark's JSON parser
_NAME_LENGTH_MAX = 50_000  # Jackson's limit
# Python's parser uses one stack frame per level, and its caller may already be deep in the stack.
_FRAMES = 20 * _DEPTH_MAX
# A string that nothing closes is one, too: else the search would begin again at each quote in it.
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


class Members(tuple[tuple[str, Any], ...]):
    """The fields of a JSON object, in order."""

    __slots__ = ()


class JsonNumber(str):
    """A number as written in JSON. It is not a JSON string: check for this class before `isinstance(value, str)`."""

    __slots__ = ()


JSON_CONSTANTS = {None: "null", True: "true", False: "false"}
ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


def _to_json_number(text: str) -> JsonNumber:
    check_number_length(text)
    return JsonNumber(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=_to_json_number, parse_float=_to_json_number, parse_constant=float
)


def parse_object(text: str) -> Any:
    """Return the JSON object in a text; None for the literal null. Raises Unfit for everything else.

    The text after a complete object is ignored, as Spark's from_json ignores it; but the text must end with `}`, which
    is the only cheap check. So `{"a":1} x` is refused, and `{"a":1}{"a":2}` gives its first object.
    """
    stripped_text = text.strip(JSON_BLANKS)
    if stripped_text == "null":
        return None
    if not stripped_text.startswith("{"):
        raise Unfit(f"expected a JSON object, found {clip_text(stripped_text) or 'nothing'}")
    if not stripped_text.endswith("}"):
        raise Unfit(f"expected a JSON object that ends with }}, found {clip_text(stripped_text)}")
    return _decode_first_value(stripped_text)[0]


def parse_value(text: str) -> Any:
    """Return any JSON value; None for the literal null. Raises Unfit for a text that is not exactly one JSON value."""
    stripped_text = text.strip(JSON_BLANKS)
    value, end_position = _decode_first_value(stripped_text)
    if end_position != len(stripped_text):
        raise Unfit(f"expected one JSON value, found {clip_text(stripped_text)}")
    return value


def end_of_first_value(text: str) -> int:
    """Return the position after the first JSON value of a text that begins with one, or with blanks before it."""
    start = len(text) - len(text.lstrip(JSON_BLANKS))
    return start + _decode_first_value(text[start:])[1]


def _decode_first_value(stripped_text: str) -> tuple[Any, int]:
    """Return the first value in a text, and the position after it."""
    _check_depth(stripped_text)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))
    try:
        value, end_position = _DECODER.raw_decode(stripped_text)
    except Unfit:
        raise
    except json.JSONDecodeError as error:
        raise Unfit(f"expected JSON: {error.msg} at character {error.pos}") from error
    if len(stripped_text) > _NAME_LENGTH_MAX:
        _check_names(value)
    return value, end_position


def _check_names(value: Any) -> None:
    """Raise Unfit for a field's name that Spark's parser refuses. Not recursive: the value may be deep."""
    todo_items = [value]
    while todo_items:
        next_item = todo_items.pop()
        if isinstance(next_item, Members):
            for name, inner_value in next_item:
                if len(name) > _NAME_LENGTH_MAX:
                    raise Unfit(
                        f"expected names of at most {_NAME_LENGTH_MAX} characters, found one of {len(name)}: "
                        f"{clip_text(name, 40)}"
                    )
                todo_items.append(inner_value)
        elif isinstance(next_item, list):
            todo_items += next_item


def _check_depth(text: str) -> None:
    """Raise Unfit for deeper nesting than Spark reads; ignore the text after the first complete object."""
    if text.count("[") + text.count("{") <= _DEPTH_MAX:
        return
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket[0], 0)
        if depth > _DEPTH_MAX:
            raise Unfit(f"expected JSON of at most {_DEPTH_MAX} levels, found more at character {bracket.start()}")
        if depth == 0 and bracket[0] == "}":
            return


def write_parsed(value: Any) -> str:
    """Return a parsed JSON value as compact text, duplicate fields included. Not recursive: the value may be deep."""
    json_parts: list[str] = []
    todo_items: list[Any] = [value]
    while todo_items:
        next_item = todo_items.pop()
        if isinstance(next_item, _JsonText):
            json_parts.append(next_item)
        elif isinstance(next_item, Members):
            member_parts = [
                member_part
                for name, inner_value in next_item
                for member_part in (_JsonText(f",{_quote_string(name)}:"), inner_value)
            ]
            todo_items += reversed([_JsonText("{"), *_first_without_comma(member_parts), _JsonText("}")])
        elif isinstance(next_item, list):
            member_parts = [member_part for inner_value in next_item for member_part in (_JsonText(","), inner_value)]
            todo_items += reversed([_JsonText("["), *_first_without_comma(member_parts), _JsonText("]")])
        else:
            json_parts.append(_write_scalar(next_item))
    return "".join(json_parts)


class _JsonText(str):
    """Text that is already JSON."""

    __slots__ = ()


def _first_without_comma(pairs: list[Any]) -> list[Any]:
    return [_JsonText(pairs[0][1:]), *pairs[1:]] if pairs else []


def _write_scalar(value: Any) -> str:
    if isinstance(value, JsonNumber):
        return value
    if isinstance(value, float):
        return f'"{java_double(value)}"'  # NaN and infinities are quoted, even as the whole text of a string column
    return _quote_string(value) if isinstance(value, str) else JSON_CONSTANTS[value]


def _quote_string(text: str) -> str:
    """Return a quoted string as Java writes it: escapes in capitals, two of them for a character beyond 16 bits.

    Half of a surrogate pair, which UTF-8 can't encode, is an escape too.
    """
    json_string = encode_basestring(text)
    if "\\" in json_string:
        json_string = ESCAPE.sub(
            lambda match: "\\u" + match[1][1:].upper() if match[1][0] == "u" else match[0], json_string
        )
    return escape_surrogates(json_string)


def write_json(value: Any) -> str:
    """Return a row's value as compact JSON.

    Decimals are numbers with their scale, timestamps ISO 8601 with Z and only as many fraction digits as needed,
    binaries base64, doubles in their shortest form; doubles that are not JSON numbers are "NaN", "Infinity" and
    "-Infinity".
    """
    match value:
        case str():
            return _quote_string(value)
        case None | bool():
            return JSON_CONSTANTS[value]
        case int():
            return str(value)
        case float():
            return float.__repr__(value) if abs(value) < float("inf") else f'"{java_double(value)}"'
        case Decimal():
            return format_decimal(value)
        case datetime():
            return f'"{format_timestamp(value)}"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes() | bytearray():
            return f'"{base64.b64encode(value).decode("ascii")}"'
        case Mapping():
            return (
                "{"
                + ",".join(
                    [
                        f"{_quote_string(name if isinstance(name, str) else str(name))}:{write_json(item)}"
                        for name, item in value.items()
                    ]
                )
                + "}"
            )
        case list() | tuple():
            return "[" + ",".join(map(write_json, value)) + "]"
    raise TypeError(f"{value!r} has no JSON form")


def format_decimal(value: Decimal) -> str:
    """Return a decimal with all its digits, or with an exponent if it would have hundreds of zeros."""
    return format(value, "f") if abs(value.adjusted()) < 100 else str(value)


def format_timestamp(value: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, with milliseconds or microseconds only if they are not zero."""
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no zone; a row's timestamps are in UTC")
    microseconds = value.microsecond
    time_precision = "seconds" if microseconds == 0 else "milliseconds" if microseconds % 1000 == 0 else "microseconds"
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=time_precision) + "Z"
