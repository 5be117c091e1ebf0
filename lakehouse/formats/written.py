"""A key and a value as a person writes them in a test or a scenario file: to bytes, and back.

| format    | a key                                                 | a value                                |
|-----------|-------------------------------------------------------|----------------------------------------|
| json      | the column's value; an object of several columns      | any JSON value, unchanged              |
| json_bare | the column's value                                    | any JSON value, unchanged              |
| delimited | the line itself, or as json                           | the line itself, or an object          |
| kafka     | the value itself                                      | the value itself, or an object of one  |
| none      | any text: it is not read                              |                                        |

Fields have their names in the topic.

A JSON value is written unchanged, so that a test can contain one that does not fit the schema. A binary is bytes, or
its base64 text. None is a null: a null key, a tombstone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakehouse.formats.decode import decode_columns, part_of
from lakehouse.formats.delimited import delimiter
from lakehouse.formats.encode import encode_key
from lakehouse.formats.json_text import write
from lakehouse.formats.text_value import parse_binary
from lakehouse.formats.unfit import Unfit, clipped, utf8
from lakehouse.plan.origin import Source
from lakehouse.plan.schema import JSON_FORMATS, Column, base_type
from lakehouse.semantics import windowed_key
from lakehouse.semantics.window import Span

# The Python type in which a primitive is written: another type would silently give other bytes.
_TAKES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "bigint": (int,),
    "double": (int, float, Decimal),
    "binary": (bytes, str),
}


def key_bytes(source: Source, key: Any, window: Mapping[str, int] | None = None) -> bytes | None:
    """Return the bytes of a key; a key of several columns is an object, or their values in order. Raises Unfit.

    window: of a key that names one, its "start" and "end" in milliseconds.
    """
    if key is None:
        return None
    format, kind = windowed_key.window_of(source.key_format)
    if kind is not None:
        if window is None:
            raise Unfit('the key names a window: {"start": ..., "end": ...}')
        own = key_bytes(replace(source, key=source.key[:-2], key_format=format), key)
        return windowed_key.with_window(own or b"", kind, Span(int(window["start"]), int(window["end"])))
    if source.key_format == "none":
        return _utf8(key if isinstance(key, str) else write(key))
    if delimiter(source.key_format) and isinstance(key, str):
        return _utf8(key)
    columns = tuple(column.in_topic for column in source.key)
    if len(columns) == 1:
        key = {columns[0].name: key}
    elif isinstance(key, list | tuple) and len(key) == len(columns):
        key = dict(zip((column.name for column in columns), key, strict=True))
    elif isinstance(key, Mapping) and source.key_format == "json_any_case":
        named = {column.name.lower(): column.name for column in columns}
        key = {named.get(name.lower(), name): part for name, part in key.items()}
    return _encoded(source.key_format, columns, key)


def value_bytes(source: Source, value: Any) -> bytes | None:
    """Return the bytes of a value. Raises Unfit for a value that the format can't hold."""
    if value is None:
        return None
    if source.value_format in (*JSON_FORMATS, "json_bare"):
        try:
            return write(value).encode("utf-8")
        except (TypeError, ValueError) as error:
            raise Unfit(str(error)) from error
    if delimiter(source.value_format) and not isinstance(value, Mapping):
        return _utf8(str(value))
    if source.value_format == "kafka" and not isinstance(value, Mapping):
        value = {source.value[0].name: value}
    return _encoded(source.value_format, source.value, value)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unfit(f"found {clipped(ascii(text))}: half of a surrogate pair is no text in UTF-8") from error


def _encoded(format: str, columns: tuple[Column, ...], row: Any) -> bytes | None:
    names = [column.name for column in columns]
    if not isinstance(row, Mapping):
        raise Unfit(f"expected an object of {', '.join(names)}, found {clipped(repr(row))}")
    if unknown := [name for name in row if name not in names]:
        raise Unfit(f"found {unknown[0]!r}, expected {', '.join(names)}")
    if format == "kafka":
        row = {columns[0].name: _primitive(columns[0], row.get(columns[0].name))}
    try:
        return encode_key(format, columns, dict(row))
    except (TypeError, ValueError) as error:
        raise Unfit(str(error)) from error


def _primitive(column: Column, value: Any) -> Any:
    kind = base_type(column.type)
    if value is None:
        return None
    if not isinstance(value, _TAKES[kind]) or isinstance(value, bool):
        raise Unfit(f"{column}: expected {kind}, found {clipped(repr(value))}")
    return parse_binary(value) if kind == "binary" and isinstance(value, str) else value


def written_key(source: Source, data: bytes | None) -> Any:
    """Return the written form of a key. Raises Unfit for bytes that have none: show them in hex."""
    if data is None:
        return None
    if windowed_key.window_of(source.key_format)[1] is not None:
        raise Unfit("it names a window")
    if delimiter(source.key_format) or source.key_format == "none":
        key: Any = utf8(data)
    elif source.key_format == "kafka":
        key = _shown(data, source.key)
    else:
        key = _parsed(data)
        if isinstance(key, dict) and len(source.key) == 1 and source.key_format != "json_bare":
            key = key.get(source.key[0].in_topic.name)
    return _same("key", source.key_format, source.key, data, key_bytes(source, key), key)


def written_value(source: Source, data: bytes | None) -> Any:
    """Return the written form of a value. Raises Unfit for bytes that have none: show them in hex."""
    if data is None:
        return None
    if delimiter(source.value_format):
        value: Any = utf8(data)
    else:
        value = _shown(data, source.value) if source.value_format == "kafka" else _parsed(data)
    return _same("value", source.value_format, source.value, data, value_bytes(source, value), value)


def _shown(data: bytes, columns: tuple[Column, ...]) -> Any:
    row = decode_columns("kafka", columns, data)
    value = (row or {}).get(columns[0].name)
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(utf8(data), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Unfit(f"not JSON: {error}") from error


def _same(part: str, format: str, columns: tuple[Column, ...], data: bytes, again: bytes | None, written: Any) -> Any:
    """Check that the written form is read like the bytes: as the same row, or refused for the same reason."""
    if _read(part, format, columns, data) != _read(part, format, columns, again):
        raise Unfit("its text would be read otherwise")
    return written


def _read(part: str, format: str, columns: tuple[Column, ...], data: bytes | None) -> Any:
    try:
        return part_of(part, format, columns, data)
    except Unfit as error:
        return str(error)
