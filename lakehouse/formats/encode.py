"""Rows to the bytes of a record: the inverse of `lakehouse.formats.decode`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.formats import delimited, epoch, json_value, primitive
from lakehouse.formats.named import rename_columns, strip_named_suffix
from lakehouse.plan.schema import Column, fields_of

_ENCODERS: dict[str, Callable[[dict[str, Any], tuple[Column, ...]], bytes]] = {
    "json": json_value.encode_object,
    "json_any_case": json_value.encode_object,
    "json_bare": json_value.encode_bare_value,
    "kafka": primitive.encode_primitive,
}


def encode_key(format: str, columns: tuple[Column, ...], values: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a key; for None return None, Kafka's null key.

    A null primitive has no bytes either, so the format kafka can't distinguish a null column from a null key.
    """
    columns, values = _as_in_topic(columns, values)
    format, is_named = strip_named_suffix(format)
    if is_named:
        topic_fields = fields_of(columns)
        columns, values = topic_fields, rename_columns(values, columns, topic_fields)
    format, has_number_moments = epoch.strip_epoch_suffix(format)
    if has_number_moments and values is not None:
        values = epoch.moments_to_numbers(values)
    if values is None or (format == "kafka" and values.get(columns[0].name) is None):
        return None
    separator = delimited.field_separator(format)
    return (
        _ENCODERS[format](values, columns) if separator is None else delimited.encode_line(values, columns, separator)
    )


def _as_in_topic(columns: tuple[Column, ...], values: dict[str, Any] | None) -> Any:
    """Return columns and a row under the names of the topic's fields."""
    if not any(column.is_renamed for column in columns):
        return columns, values
    topic_columns = tuple(column.in_topic for column in columns)
    return topic_columns, rename_columns(values, columns, topic_columns)


def encode_value(format: str, columns: tuple[Column, ...], values: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a value; for None return None, a tombstone.

    In the format kafka, a row whose only column is null becomes a tombstone too: primitives have no other null.
    """
    return encode_key(format, columns, values)
