"""Keys and values as people write them in tests and scenario files: to bytes, and back.

| format    | a key                                                 | a value                                |
|-----------|-------------------------------------------------------|----------------------------------------|
| json      | the column's value; an object of several columns      | any JSON value, unchanged              |
| json_bare | the column's value                                    | any JSON value, unchanged              |
| connect_* | as json, with or without a schema beside it           | as json                                |
| json_sr   | as json; the bytes get the prefix of a schema         | as json                                |
| delimited | the line itself, or as json                           | the line itself, or an object          |
| kafka     | the value itself                                      | the value itself, or an object of one  |
| avro      | the column's value; an object of several columns      | an object                              |
| protobuf  | the column's value; an object of several columns      | an object                              |
| avro_bare | the column's value                                    | the value itself                       |
| none      | any text, which is ignored                            |                                        |

Fields have their names in the topic.

A JSON value is not checked, so that a test can contain a value that does not fit the schema. A binary is bytes, or
its base64 text. None is a null key, or a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakehouse.formats.codec.codec import Codec
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import NO_SCHEMAS, WriterSchemas
from lakehouse.formats.decode import declared_schemas, part_decoder
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.semantics.key_value import key_value
from lakehouse.semantics.time import kafka_time, windowed_key
from lakehouse.semantics.time.window import Span


def encode_written_key(source: Source, key: Any, window: Mapping[str, int] | None = None) -> bytes | None:
    """Return the bytes of a key; a key of several columns is an object, or their values in order. Raises Unfit.

    window: for a key with a window, its "start" and "end" in milliseconds.
    """
    if key is None:
        return None
    key_format = parse_format(source.key_format)
    if (window_kind := key_format.window) is not None:
        if not isinstance(window, Mapping) or not {"start", "end"} <= window.keys():
            raise Unfit('the key names a window: {"start": ..., "end": ...}')
        span = Span(int(window["start"]), int(window["end"]))
        if not all(bound in kafka_time.INT64 for bound in span):
            raise Unfit(f"expected a window in milliseconds, whole numbers of 64 bits; found {dict(window)}")
        own_key = encode_written_key(
            replace(source, key=source.key[:-2], key_format=str(key_format.without_window)), key
        )
        return windowed_key.with_window(own_key or b"", window_kind, span)
    codec = codec_of(source.key_format)
    if (key_text := codec.key_text(key)) is not None:
        return codec.with_own_prefix(_encode_utf8(key_text))
    columns = tuple(column.in_topic for column in source.key)
    return _encode_row(codec, columns, codec.key_row(key, columns), encode_key)


def encode_written_value(source: Source, value: Any) -> bytes | None:
    """Return the bytes of a value. Raises Unfit for a value that the format can't hold."""
    if value is None:
        return None
    codec = codec_of(source.value_format)
    if (value_text := codec.value_text(value)) is not None:
        return codec.with_own_prefix(_encode_utf8(value_text))
    columns = codec.written_columns(tuple(column.in_topic for column in source.value))
    return _encode_row(codec, columns, codec.value_row(value, columns), encode_value)


def _encode_utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unfit(f"found {clip_text(ascii(text))}: half of a surrogate pair is no text in UTF-8") from error


def _encode_row(
    codec: Codec, columns: tuple[Column, ...], row: Any, encode: Callable[..., bytes | None]
) -> bytes | None:
    column_names = [column.name for column in columns]
    if not isinstance(row, Mapping):
        raise Unfit(f"expected an object of {', '.join(column_names)}, found {clip_text(repr(row))}")
    if unknown_names := [name for name in row if name not in column_names]:
        raise Unfit(f"found {unknown_names[0]!r}, expected {', '.join(column_names)}")
    row = codec.checked_row(dict(row), columns)
    try:
        return encode(str(codec.format), columns, row)
    except (TypeError, ValueError) as error:
        raise Unfit(str(error)) from error


def decode_written_key(source: Source, data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS) -> Any:
    """Return the written form of a key. Raises Unfit for bytes that have none: show them in hex.

    schemas: of those who wrote the topic's keys.
    """
    if data is None:
        return None
    codec = codec_of(source.key_format).with_schemas(schemas)
    if codec.format.window is not None:
        raise Unfit("it names a window")
    key = codec.write_key(data, tuple(column.in_topic for column in source.key))
    _check_reads_same("key", source, (data, schemas), encode_written_key(source, key))
    return key


def decode_written_value(source: Source, data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS) -> Any:
    """Return the written form of a value. Raises Unfit for bytes that have none: show them in hex.

    schemas: of those who wrote the topic's values.
    """
    if data is None:
        return None
    codec = codec_of(source.value_format).with_schemas(schemas)
    value = codec.write_value(data, tuple(column.in_topic for column in source.value))
    _check_reads_same("value", source, (data, schemas), encode_written_value(source, value))
    return value


def _check_reads_same(
    part_name: str, source: Source, record_part: tuple[bytes, WriterSchemas], encoded_again: bytes | None
) -> None:
    """Raise Unfit if what people write is read otherwise than a record's own bytes: as another row, or reason."""
    format, columns = source.format_and_columns(part_name)
    written_part = (encoded_again, declared_schemas(source, part_name))
    record_row, written_row = (
        _row_or_reason(part_name, format, columns, *part_bytes) for part_bytes in (record_part, written_part)
    )
    if key_value(record_row) != key_value(written_row):  # NaN is what it was, though it equals nothing
        raise Unfit("its text would be read otherwise")


def _row_or_reason(
    part_name: str, format: str, columns: tuple[Column, ...], data: bytes | None, schemas: WriterSchemas
) -> Any:
    try:
        return part_decoder(part_name, format, columns, schemas)(data)
    except Unfit as error:
        return str(error)
