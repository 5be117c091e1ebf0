"""Rows to the bytes of a record: the inverse of `lakehouse.formats.decode`."""

from __future__ import annotations

from typing import Any

from lakehouse.formats import epoch
from lakehouse.formats.codec.codec import Codec
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.plan.expression.field_names import rename_columns
from lakehouse.plan.expression.schema import Column, fields_of


def encode_key(format: str, columns: tuple[Column, ...], values: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a key; for None return None, Kafka's null key.

    A null primitive has no bytes either, so the format kafka can't distinguish a null column from a null key.
    """
    codec, topic_columns, topic_values = _prepare(format, columns, values)
    return None if topic_values is None else codec.encode_key(topic_values, topic_columns)


def encode_value(format: str, columns: tuple[Column, ...], values: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a value; for None return None, a tombstone.

    In the format kafka, a row whose only column is null becomes a tombstone too: primitives have no other null.
    """
    codec, topic_columns, topic_values = _prepare(format, columns, values)
    return None if topic_values is None else codec.encode(topic_values, topic_columns)


def _prepare(
    format: str, columns: tuple[Column, ...], values: dict[str, Any] | None
) -> tuple[Codec, tuple[Column, ...], dict[str, Any] | None]:
    """Return the codec of a format, with columns and a row as it writes them."""
    columns, values = _as_in_topic(columns, values)
    codec = codec_of(format)
    if codec.format.is_named:
        topic_fields = fields_of(columns)
        columns, values = topic_fields, rename_columns(values, columns, topic_fields)
    if codec.format.has_number_moments and values is not None:
        values = epoch.moments_to_numbers(values)
    return codec, columns, values


def _as_in_topic(columns: tuple[Column, ...], values: dict[str, Any] | None) -> Any:
    """Return columns and a row under the names of the topic's fields."""
    if not any(column.is_renamed for column in columns):
        return columns, values
    topic_columns = tuple(column.in_topic for column in columns)
    return topic_columns, rename_columns(values, columns, topic_columns)
