"""JSON as Jackson reads and writes it, for the model: numbers keep their digits; text after a value is not read.

Half of a surrogate pair, from an escape, is a name of its own while a path is followed, and ? in what is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from lakehouse.model.function.json_text import to_compact_json
from lakehouse.plan.names.json_path import json_pointer
from lakehouse.semantics.blanks import JSON_BLANKS
from lakehouse.semantics.surrogates import replace_surrogates

_DIGITS_MAX = 1000  # Jackson's own limit
_MISSING = object()


def _refuse_word(text: str) -> NoReturn:
    raise ValueError(text)


def _limited_reader(parse_number: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of numbers that rejects more digits than Jackson takes."""

    def run(text: str) -> Any:
        if len(text) > _DIGITS_MAX:
            raise ValueError(text)
        return parse_number(text)

    return run


_DECODER = json.JSONDecoder(
    parse_float=_limited_reader(Decimal), parse_int=_limited_reader(int), parse_constant=_refuse_word
)


def _read_first_value(text: str) -> Any:
    """Return the first JSON value of a text; `_MISSING` for an empty text. Raises ValueError for invalid JSON."""
    value_start = len(text) - len(text.lstrip(JSON_BLANKS))
    if value_start == len(text):
        return _MISSING
    try:
        value, value_end = _DECODER.raw_decode(text, value_start)
    except RecursionError as error:
        raise ValueError("too deep") from error
    is_word = isinstance(value, bool | int | Decimal | None)
    if is_word and value_end < len(text) and text[value_end] not in JSON_BLANKS:
        raise ValueError(text)
    return value


def _null_for_invalid(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives null for invalid JSON."""

    def run(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except ValueError:
            return None

    return run


def _value_at_pointer(text: str, path: str) -> str:
    value = _read_first_value(text)
    for pointer_part in path.split("/")[1:]:
        member_name = pointer_part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(member_name, _MISSING)
        elif (
            isinstance(value, list)
            and member_name.isascii()
            and member_name.isdecimal()
            and str(int(member_name)) == member_name
        ):
            value = value[int(member_name)] if int(member_name) < len(value) else _MISSING
        else:
            value = _MISSING
    return "" if value is _MISSING else _found_json(value)


def _found_json(value: Any) -> str:
    return replace_surrogates(to_compact_json(value))


def _items_as_json(text: str) -> list[str] | None:
    value = _read_first_value(text)
    return [_found_json(item) for item in value] if isinstance(value, list) else None


def _fields_as_json(text: str) -> dict[str, str] | None:
    value = _read_first_value(text)
    if not isinstance(value, dict):
        return None
    return {replace_surrogates(name): _found_json(item) for name, item in value.items()}


def _read_text(text: str) -> str | None:
    value = _read_first_value(text)
    return replace_surrogates(value) if isinstance(value, str) else None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ksql_json_at": _null_for_invalid(_value_at_pointer),
    "ksql_json_fields": _null_for_invalid(_fields_as_json),
    "ksql_json_items": _null_for_invalid(_items_as_json),
    "ksql_json_pointer": json_pointer,
    "ksql_json_text": _null_for_invalid(_read_text),
}
