"""A key as the text that people type on the command line and on the page, and back.

| key             | its text                                                                                      |
|-----------------|-----------------------------------------------------------------------------------------------|
| of one column   | the value itself: EWR                                                                         |
| of several      | the values, joined by commas: Rome,7. As in CSV, a value with a comma, a quote or a line      |
|                 | break is quoted, with inner quotes doubled: "Rome, north",7. Empty is null, "" is empty text  |

Numbers, dates and timestamps are written as in a delimited field, binaries as base64, structs and arrays as JSON. No
two keys share a text. A key is searched by its values: 1.5 and 1.50 are the same decimal, 18:00:00Z and 20:00:00+02:00
the same time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.formats.values import json_value
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.text_value import text_reader
from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type
from lakehouse.semantics.key_value import key_value

QUOTED_CHARACTERS = ',"\r\n'  # in a key of several columns, a value with one of these is quoted
_KEY_FIELD = re.compile(r'"((?:[^"]|"")*)"(?=,|\Z)|((?!")[^,]*)', re.DOTALL)
QUOTING_HINT = 'put one that has a comma, a quote or a line break in quotes, and double a quote in it: "Rome, north",7'


def write_key(values: Sequence[Any]) -> str:
    """Return the text of a key's values."""
    if len(values) == 1:
        return _value_text(values[0])
    return ",".join(_quote_field(value) for value in values)


def parse_key(text: str, columns: Iterable[Column]) -> tuple[Any, ...]:
    """Return the values in a key's text, converted to the types of its columns; a column without a type keeps its text.

    Raises ConfigError for a text that is not a key of these columns.
    """
    columns = tuple(columns)
    if not isinstance(text, str):
        raise ConfigError(f"key {text!r}: expected its text, such as '7'. {_expected_sentence(columns)}")
    fields = _split_fields(text, columns)
    return tuple(_parse_field(text, *pair) for pair in zip(columns, fields, strict=True))


def several_columns_sentence(names: Sequence[str]) -> str:
    """Return a sentence that explains how to write a key of several columns."""
    return f"A key of several columns is its values joined by commas: {','.join(names)}; {QUOTING_HINT}."


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    json_form = write_json(value)
    # write_json quotes values that have no JSON type: dates, timestamps, binaries, infinite numbers.
    return json_form[1:-1] if json_form.startswith('"') else json_form


def _quote_field(value: Any) -> str:
    text = _value_text(value)
    if value is None or (text and not any(special_character in text for special_character in QUOTED_CHARACTERS)):
        return text
    return '"' + text.replace('"', '""') + '"'


def _split_fields(text: str, columns: tuple[Column, ...]) -> list[str | None]:
    if len(columns) == 1:
        return [text]
    fields: list[str | None] = []
    position = 0
    while position <= len(text):
        field = _KEY_FIELD.match(text, position)
        if field is None:
            raise ConfigError(
                f"key {clip_text(text)!r}: a quote is not closed at character {position}. {_expected_sentence(columns)}"
            )
        quoted, bare = field.groups()
        fields.append(bare or None if quoted is None else quoted.replace('""', '"'))
        position = field.end() + 1
    if len(fields) != len(columns):
        raise ConfigError(f"key {clip_text(text)!r}: found {len(fields)} values. {_expected_sentence(columns)}")
    return fields


def _parse_field(key_text: str, column: Column, field_text: str | None) -> Any:
    if field_text is None or not column.type:
        return field_text
    try:
        if base_type(column.type) not in NESTED_TYPES:
            return key_value(text_reader(column.type)(field_text))
        json.loads(field_text)  # the whole text, and nothing after it
        row = json_value.decode_object(f"{{{json.dumps(column.name)}:{field_text}}}".encode(), (column,))
        return None if row is None else key_value(row[column.name])
    except (Unfit, ValueError, RecursionError) as error:
        raise ConfigError(
            f"key {clip_text(key_text)!r}: {column.name}: {error}. {_expected_sentence((column,))}"
        ) from error


def _expected_sentence(columns: tuple[Column, ...]) -> str:
    if len(columns) == 1:
        return f"Expected a {columns[0].type}."
    return f"Expected {','.join(map(str, columns))}: the values joined by commas; {QUOTING_HINT}."
