"""JSON as Jackson reads and writes it, for the model: numbers keep their digits, what follows a value is not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from lakehouse.model.function.json_text import written
from lakehouse.plan.names.json_path import json_pointer

_BLANKS = " \t\n\r"
_DIGITS_MAX = 1000  # Jackson's own limit
_MISSING = object()


def _not_json(text: str) -> NoReturn:
    raise ValueError(text)


def _number(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of numbers that have no more digits than Jackson takes."""

    def run(text: str) -> Any:
        if len(text) > _DIGITS_MAX:
            raise ValueError(text)
        return read(text)

    return run


_DECODER = json.JSONDecoder(parse_float=_number(Decimal), parse_int=_number(int), parse_constant=_not_json)


def _read(text: str) -> Any:
    """What a text begins with. Raises ValueError for no JSON; `_MISSING` for a text of nothing."""
    begin = len(text) - len(text.lstrip(_BLANKS))
    if begin == len(text):
        return _MISSING
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except RecursionError as error:
        raise ValueError("too deep") from error
    is_word = isinstance(value, bool | int | Decimal | None)
    if is_word and end < len(text) and text[end] not in _BLANKS:
        raise ValueError(text)
    return value


def _known(work: Callable[..., Any]) -> Callable[..., Any]:
    """Null for what is no JSON."""

    def run(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except ValueError:
            return None

    return run


def _at(text: str, path: str) -> str:
    value = _read(text)
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name, _MISSING)
        elif isinstance(value, list) and name.isascii() and name.isdecimal() and str(int(name)) == name:
            value = value[int(name)] if int(name) < len(value) else _MISSING
        else:
            value = _MISSING
    return "" if value is _MISSING else written(value)


def _items(text: str) -> list[str] | None:
    value = _read(text)
    return [written(item) for item in value] if isinstance(value, list) else None


def _fields(text: str) -> dict[str, str] | None:
    value = _read(text)
    return {name: written(item) for name, item in value.items()} if isinstance(value, dict) else None


def _text(text: str) -> str | None:
    value = _read(text)
    return value if isinstance(value, str) else None


STRICT: dict[str, Callable[..., Any]] = {
    "ksql_json_at": _known(_at),
    "ksql_json_fields": _known(_fields),
    "ksql_json_items": _known(_items),
    "ksql_json_pointer": json_pointer,
    "ksql_json_text": _known(_text),
}
