"""Decode a record through its source's schema: to rows, to nulls, or to a reason for the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from lakehouse.formats import epoch
from lakehouse.formats.codec.codec import Codec
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import NO_SCHEMAS, FindSchemas, WriterSchemas, find_no_schemas, prefix_hint
from lakehouse.formats.other_format import other_formats_hint
from lakehouse.formats.values.unfit import Unfit
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.expression.field_names import rename_columns
from lakehouse.plan.expression.schema import Column, fields_of
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.names.schema_options import SchemaOptions
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.key_value import key_value
from lakehouse.semantics.record import Record
from lakehouse.semantics.time import windowed_key
from lakehouse.semantics.time.window import Window
from lakehouse.semantics.time.years import is_possible_time

DecodePart = Callable[[bytes | None], dict[str, Any] | None]


def decode_columns(
    format: str, columns: tuple[Column, ...], data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS
) -> dict[str, Any] | None:
    """Return the row in the bytes of a value; None for a null. Raises Unfit, with the reason.

    The reason names fields as they are in the topic; the row has the names of columns. schemas: of those who wrote the
    topic's values.
    """
    return part_decoder("value", format, columns, schemas)(data)


def part_decoder(
    part_name: str, format: str, columns: tuple[Column, ...], schemas: WriterSchemas = NO_SCHEMAS
) -> DecodePart:
    """Return the function that decodes the bytes of a record's "key" or "value", as `decode_key`, `decode_columns` do.

    The codec and the columns are looked up once, for all records.
    """
    codec = codec_of(format).with_schemas(schemas)
    if part_name == "key":
        return lambda data: None if data is None else _decode_key(codec, columns, data)
    decode = _row_decoder(codec, columns)
    return lambda data: None if data is None else decode(data)


def row_or_unfit(decode: DecodePart, data: bytes | None) -> dict[str, Any] | None:
    """Return the row in the bytes; for bytes that do not fit, a row of `_unfit` alone, the reason."""
    try:
        return decode(data)
    except Unfit as error:
        return {"_unfit": str(error)}


def _row_decoder(codec: Codec, columns: tuple[Column, ...]) -> Callable[[bytes], dict[str, Any] | None]:
    fields = tuple(column.in_topic for column in columns) if any(c.is_renamed for c in columns) else columns
    if codec.format.is_named:
        fields = fields_of(fields)
    if codec.format.has_number_moments:
        number_columns = epoch.number_columns(fields)

        def decode(data: bytes) -> dict[str, Any] | None:
            return epoch.numbers_to_moments(codec.decode(data, number_columns), fields)
    else:

        def decode(data: bytes) -> dict[str, Any] | None:
            return codec.decode(data, fields)

    return decode if fields is columns else lambda data: rename_columns(decode(data), fields, columns)


def decode_key(
    format: str, columns: tuple[Column, ...], data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS
) -> dict[str, Any] | None:
    """Return the row in the bytes of a key; None for a null key. Raises Unfit, with the reason.

    A key is null if it has no bytes, is the literal null, or has only null columns: an absent field is null, and so is
    an empty field of a delimited line (docs/rules.md, rule 4).
    """
    return part_decoder("key", format, columns, schemas)(data)


def _decode_key(codec: Codec, columns: tuple[Column, ...], data: bytes) -> dict[str, Any] | None:
    if codec.format.window is not None:
        return _decode_windowed_key(codec, codec.format.window, columns, data)
    return _decode_own_key(codec, columns, data)


def _decode_own_key(codec: Codec, columns: tuple[Column, ...], data: bytes) -> dict[str, Any] | None:
    """Return the row in a key's own bytes, without those of a window."""
    if any(column.is_renamed for column in columns):
        topic_columns = tuple(column.in_topic for column in columns)
        return rename_columns(_decode_own_key(codec, topic_columns, data), topic_columns, columns)
    row = _row_decoder(codec, columns)(data) if codec.format.is_converted else codec.decode_key(data, columns)
    is_null = row is None or all(value is None for value in row.values())
    return None if row is None or is_null else {name: key_value(value) for name, value in row.items()}


def _decode_windowed_key(
    codec: Codec, window: Window, columns: tuple[Column, ...], data: bytes
) -> dict[str, Any] | None:
    """Return the row of a key, with the bounds of its window in the last two columns."""
    key_and_span = windowed_key.split_windowed_key(data, window)
    if key_and_span is None:
        raise Unfit(f"expected the bounds of a window after the key, found {len(data)} bytes: 0x{data.hex()}")
    own_bytes, span = key_and_span
    try:
        window_bounds = dict(zip((column.name for column in columns[-2:]), map(to_datetime, span), strict=True))
    except OverflowError as error:
        raise Unfit(f"the window from {span.start} to {span.end} is outside of the calendar") from error
    row = _decode_own_key(codec, columns[:-2], own_bytes)
    return None if row is None else row | window_bounds


def reason_not_fitting(
    part_name: str, format: str, columns: tuple[Column, ...], data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS
) -> str | None:
    """Return why the bytes of a record's "key" or "value" do not fit; None if they fit: see `reason_finder`."""
    return reason_finder(part_name, format, columns, schemas)(data)


def reason_finder(
    part_name: str, format: str, columns: tuple[Column, ...], schemas: WriterSchemas = NO_SCHEMAS
) -> Callable[[bytes | None], str | None]:
    """Return the function that says why the bytes of a record's "key" or "value" do not fit; None if they fit.

    For a key, the reason also names the formats that could read it.
    """
    decode = part_decoder(part_name, format, columns, schemas)

    def find_reason(data: bytes | None) -> str | None:
        try:
            decode(data)
        except Unfit as error:
            hint = other_formats_hint(format, columns, data, decode_key) if part_name == "key" and data else ""
            traits = parse_format(format).traits
            if data and not traits.is_registered:
                hint += prefix_hint(data, traits.language or "Avro")
            return f"{part_name}: {error}{hint}"
        return None

    return find_reason


def decode_record(
    source: Source, record: Record, find_schemas: FindSchemas = find_no_schemas
) -> DecodedRecord | BadRecord:
    """Return a record's key and value as rows, or the reason why they can't be decoded. The key is decoded first.

    find_schemas: gives the schemas of the writers of a topic's "key" or "value".
    """
    key_schemas, value_schemas = (part_schemas(source, part_name, find_schemas) for part_name in ("key", "value"))
    try:
        key = decode_key(source.key_format, source.key, record.key, key_schemas)
    except Unfit:
        return BadRecord(str(reason_not_fitting("key", source.key_format, source.key, record.key, key_schemas)))
    try:
        value = decode_columns(source.value_format, source.value, record.value, value_schemas)
    except Unfit:
        return BadRecord(
            str(reason_not_fitting("value", source.value_format, source.value, record.value, value_schemas))
        )
    is_delete = value is None and record.value is not None and source.times_deletes
    time_ms = deleted_ms(source.value_format, record.value, value_schemas) if is_delete else None
    truncates = value is None and source.applies_truncates and is_truncate(source, record.value, value_schemas)
    return DecodedRecord(key, value, time_ms, truncates)


def deleted_ms(format: str, data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS) -> int | None:
    """Return the time of a delete that has one of its own, in milliseconds; None for all other values, or a wrong time.

    data: the bytes of a value.
    """
    time_ms = None if data is None else codec_of(format).with_schemas(schemas).deleted_ms(data)
    return time_ms if time_ms is not None and is_possible_time(time_ms) else None


def is_truncate(source: Source, data: bytes | None, schemas: WriterSchemas = NO_SCHEMAS) -> bool:
    """Say whether the bytes of a value without a row are a truncate: see `Source.applies_truncates`."""
    return data is not None and codec_of(source.value_format).with_schemas(schemas).is_truncate(data)


def part_schemas(source: Source, part_name: str, find_schemas: FindSchemas) -> WriterSchemas:
    """Return the schemas of the writers of a source's "key" or "value": none are looked for where none are needed."""
    return find_schemas(source.topic, part_name) if part_name in source.registered_parts else NO_SCHEMAS


def find_declared(sources: Iterable[Source]) -> FindSchemas:
    """Return the function that finds the schemas by which what tests write can be read, by topic and part.

    Where several sources read a topic, tests write its records as the first one declares them.
    """
    source_by_topic: dict[str, Source] = {}
    for source in sources:
        source_by_topic.setdefault(source.topic, source)
    return cache(lambda topic, part_name: declared_schemas(source_by_topic[topic], part_name))


def declared_schemas(source: Source, part_name: str) -> WriterSchemas:
    """Return the schemas by which what tests write of a source can be read."""
    codec, columns = part_in_topic(source, part_name)
    return codec.declared_schemas(columns, is_key=part_name == "key")


def written_schemas(format: str, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
    """Return the schemas by which what a format writes of columns can be read."""
    codec, topic_columns = _in_topic(format, columns)
    return codec.declared_schemas(topic_columns, is_key=is_key)


def options_after(format: str, columns: tuple[Column, ...], latest: WriterSchema) -> SchemaOptions:
    """Return how a format writes columns where a schema, the newest one of the subject, comes before theirs."""
    codec, topic_columns = _in_topic(format, columns)
    return codec.options_after(latest, topic_columns)


def part_in_topic(source: Source, part_name: str) -> tuple[Codec, tuple[Column, ...]]:
    """Return the codec of a source's "key" or "value", and its columns with the names and types of the topic's fields.

    Without the bounds of a window, which stand behind a key's own bytes.
    """
    return _in_topic(*source.format_and_columns(part_name))


def _in_topic(format: str, columns: tuple[Column, ...]) -> tuple[Codec, tuple[Column, ...]]:
    codec = codec_of(format)
    topic_columns = tuple(column.in_topic for column in columns)
    if codec.format.window is not None:
        topic_columns = topic_columns[:-2]
    return codec, fields_of(topic_columns) if codec.format.is_named else topic_columns
