"""A key as text, the form in which a person names it on the command line and on the page, and back.

| key             | its text                                                                                      |
|-----------------|-----------------------------------------------------------------------------------------------|
| of one column   | the value itself: EWR                                                                         |
| of several      | the values, joined by commas: Rome,7. As in CSV, a value with a comma, a quote or a line      |
|                 | break is quoted, with quotes inside doubled: "Rome, north",7. Empty is null, "" is text       |

Numbers, dates and timestamps are as in a delimited field, a binary is base64, structs and arrays are JSON. No two keys
share a text. A key is searched by its values: 1.5 and 1.50 are one decimal, 18:00:00Z and 20:00:00+02:00 one time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.formats import json_value
from lakehouse.formats.json_text import write
from lakehouse.formats.text_value import from_text
from lakehouse.formats.unfit import Unfit, clipped
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type
from lakehouse.semantics.key_value import key_value

SPECIAL = ',"\r\n'  # in a key of several columns, a value with one of these is quoted
_FIELD = re.compile(r'"((?:[^"]|"")*)"(?=,|\Z)|((?!")[^,]*)', re.DOTALL)
QUOTED = 'put one that has a comma, a quote or a line break in quotes, and double a quote in it: "Rome, north",7'


def write_key(values: Sequence[Any]) -> str:
    """Return the text of a key's values."""
    if len(values) == 1:
        return _text(values[0])
    return ",".join(_field(value) for value in values)


def parse_key(text: str, columns: Iterable[Column]) -> tuple[Any, ...]:
    """Return the values in a key's text, by the types of its columns; for a column without a type, its text.

    Raises ConfigError for a text that is not such a key.
    """
    columns = tuple(columns)
    fields = _fields(text, columns)
    return tuple(_value(text, *pair) for pair in zip(columns, fields, strict=True))


def several(names: Sequence[str]) -> str:
    """Return a sentence about the form of a key of several columns."""
    return f"A key of several columns is its values joined by commas: {','.join(names)}; {QUOTED}."


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    written = write(value)
    # JSON puts quotes around values that it has no type for: dates, timestamps, binaries, infinite numbers.
    return written[1:-1] if written.startswith('"') else written


def _field(value: Any) -> str:
    text = _text(value)
    if value is None or (text and not any(sign in text for sign in SPECIAL)):
        return text
    return '"' + text.replace('"', '""') + '"'


def _fields(text: str, columns: tuple[Column, ...]) -> list[str | None]:
    if len(columns) == 1:
        return [text]
    found: list[str | None] = []
    at = 0
    while at <= len(text):
        field = _FIELD.match(text, at)
        if field is None:
            raise ConfigError(f"key {clipped(text)!r}: a quote is not closed at character {at}. {_expected(columns)}")
        quoted, bare = field.groups()
        found.append(bare or None if quoted is None else quoted.replace('""', '"'))
        at = field.end() + 1
    if len(found) != len(columns):
        raise ConfigError(f"key {clipped(text)!r}: found {len(found)} values. {_expected(columns)}")
    return found


def _value(text: str, column: Column, field: str | None) -> Any:
    if field is None or not column.type:
        return field
    try:
        if base_type(column.type) not in NESTED_TYPES:
            return key_value(from_text(column.type)(field))
        json.loads(field)  # the whole text, and nothing after it
        row = json_value.decode(f'{{"{column.name}":{field}}}'.encode(), (column,))
        return None if row is None else key_value(row[column.name])
    except (Unfit, ValueError, RecursionError) as error:
        raise ConfigError(f"key {clipped(text)!r}: {column.name}: {error}. {_expected((column,))}") from error


def _expected(columns: tuple[Column, ...]) -> str:
    if len(columns) == 1:
        return f"Expected a {columns[0].type}."
    return f"Expected {','.join(map(str, columns))}: the values joined by commas; {QUOTED}."
