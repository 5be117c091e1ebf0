"""Keys and values as people write them in tests and scenario files: to bytes, and back.

| format    | a key                                                 | a value                                |
|-----------|-------------------------------------------------------|----------------------------------------|
| json      | the column's value; an object of several columns      | any JSON value, unchanged              |
| json_bare | the column's value                                    | any JSON value, unchanged              |
| delimited | the line itself, or as json                           | the line itself, or an object          |
| kafka     | the value itself                                      | the value itself, or an object of one  |
| none      | any text, which is ignored                            |                                        |

Fields have their names in the topic.

A JSON value is not checked, so that a test can contain a value that does not fit the schema. A binary is bytes, or
its base64 text. None is a null key, or a tombstone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakehouse.formats.decode import decode_columns, decode_part
from lakehouse.formats.encode import encode_key
from lakehouse.formats.json_text import write_json
from lakehouse.formats.text_value import parse_binary
from lakehouse.formats.unfit import Unfit, clip_text, decode_utf8
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.plan.schema import Column, base_type
from lakehouse.semantics import windowed_key
from lakehouse.semantics.window import Span

# The Python type of each primitive: a value of another type would silently give other bytes.
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "bigint": (int,),
    "double": (int, float, Decimal),
    "binary": (bytes, str),
}


def encode_written_key(source: Source, key: Any, window: Mapping[str, int] | None = None) -> bytes | None:
    """Return the bytes of a key; a key of several columns is an object, or their values in order. Raises Unfit.

    window: for a key with a window, its "start" and "end" in milliseconds.
    """
    if key is None:
        return None
    key_format = parse_format(source.key_format)
    if (window_kind := key_format.window) is not None:
        if window is None:
            raise Unfit('the key names a window: {"start": ..., "end": ...}')
        own_key = encode_written_key(
            replace(source, key=source.key[:-2], key_format=str(key_format.without_window)), key
        )
        return windowed_key.with_window(own_key or b"", window_kind, Span(int(window["start"]), int(window["end"])))
    if key_format.kind == "none":
        return _encode_utf8(key if isinstance(key, str) else write_json(key))
    if key_format.kind == "delimited" and isinstance(key, str):
        return _encode_utf8(key)
    columns = tuple(column.in_topic for column in source.key)
    if len(columns) == 1:
        key = {columns[0].name: key}
    elif isinstance(key, list | tuple) and len(key) == len(columns):
        key = dict(zip((column.name for column in columns), key, strict=True))
    elif isinstance(key, Mapping) and key_format.kind == "json_any_case":
        named = {column.name.lower(): column.name for column in columns}
        key = {named.get(name.lower(), name): part for name, part in key.items()}
    return _encode_row(source.key_format, columns, key)


def encode_written_value(source: Source, value: Any) -> bytes | None:
    """Return the bytes of a value. Raises Unfit for a value that the format can't hold."""
    if value is None:
        return None
    value_format = parse_format(source.value_format)
    if value_format.is_json:
        try:
            return write_json(value).encode("utf-8")
        except (TypeError, ValueError) as error:
            raise Unfit(str(error)) from error
    if value_format.kind == "delimited" and not isinstance(value, Mapping):
        if isinstance(value, list | tuple):
            raise Unfit(f"found {clip_text(repr(value))}, expected the line, or a dict of columns")
        return _encode_utf8(str(value))
    if value_format.kind == "kafka" and not isinstance(value, Mapping):
        value = {source.value[0].name: value}
    return _encode_row(source.value_format, source.value, value)


def _encode_utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unfit(f"found {clip_text(ascii(text))}: half of a surrogate pair is no text in UTF-8") from error


def _encode_row(format: str, columns: tuple[Column, ...], row: Any) -> bytes | None:
    column_names = [column.name for column in columns]
    if not isinstance(row, Mapping):
        raise Unfit(f"expected an object of {', '.join(column_names)}, found {clip_text(repr(row))}")
    if unknown_names := [name for name in row if name not in column_names]:
        raise Unfit(f"found {unknown_names[0]!r}, expected {', '.join(column_names)}")
    if parse_format(format).kind == "kafka":
        row = {columns[0].name: _primitive_value(columns[0], row.get(columns[0].name))}
    try:
        return encode_key(format, columns, dict(row))
    except (TypeError, ValueError) as error:
        raise Unfit(str(error)) from error


def _primitive_value(column: Column, value: Any) -> Any:
    type_name = base_type(column.type)
    if value is None:
        return None
    if not isinstance(value, _PYTHON_TYPES[type_name]) or isinstance(value, bool):
        raise Unfit(f"{column}: expected {type_name}, found {clip_text(repr(value))}")
    return parse_binary(value) if type_name == "binary" and isinstance(value, str) else value


def decode_written_key(source: Source, data: bytes | None) -> Any:
    """Return the written form of a key. Raises Unfit for bytes that have none: show them in hex."""
    if data is None:
        return None
    key_format = parse_format(source.key_format)
    if key_format.window is not None:
        raise Unfit("it names a window")
    if key_format.kind in ("delimited", "none"):
        key: Any = decode_utf8(data)
    elif key_format.kind == "kafka":
        key = _decode_primitive_text(data, source.key)
    else:
        key = _parse_json(data)
        if isinstance(key, dict) and len(source.key) == 1 and key_format.kind != "json_bare":
            key = key.get(source.key[0].in_topic.name)
    return _check_reads_same("key", source.key_format, source.key, data, encode_written_key(source, key), key)


def decode_written_value(source: Source, data: bytes | None) -> Any:
    """Return the written form of a value. Raises Unfit for bytes that have none: show them in hex."""
    if data is None:
        return None
    value_kind = parse_format(source.value_format).kind
    if value_kind == "delimited":
        value: Any = decode_utf8(data)
    else:
        value = _decode_primitive_text(data, source.value) if value_kind == "kafka" else _parse_json(data)
    return _check_reads_same(
        "value", source.value_format, source.value, data, encode_written_value(source, value), value
    )


def _decode_primitive_text(data: bytes, columns: tuple[Column, ...]) -> Any:
    row = decode_columns("kafka", columns, data)
    value = (row or {}).get(columns[0].name)
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(decode_utf8(data), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Unfit(f"not JSON: {error}") from error


def _check_reads_same(
    record_part: str,
    format: str,
    columns: tuple[Column, ...],
    data: bytes,
    encoded_again: bytes | None,
    written_form: Any,
) -> Any:
    """Return the written form, after a check that it reads like the bytes: as the same row, or with the same reason."""
    if _row_or_reason(record_part, format, columns, data) != _row_or_reason(
        record_part, format, columns, encoded_again
    ):
        raise Unfit("its text would be read otherwise")
    return written_form


def _row_or_reason(record_part: str, format: str, columns: tuple[Column, ...], data: bytes | None) -> Any:
    try:
        return decode_part(record_part, format, columns, data)
    except Unfit as error:
        return str(error)
