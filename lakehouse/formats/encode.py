"""Rows to the bytes of a record: the inverse of `lakehouse.formats.decode`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.formats import delimited, epoch, json_value, primitive
from lakehouse.formats.named import plain_names, renamed
from lakehouse.plan.schema import Column, fields_of

_ENCODERS: dict[str, Callable[[dict[str, Any], tuple[Column, ...]], bytes]] = {
    "json": json_value.encode,
    "json_any_case": json_value.encode,
    "json_bare": json_value.encode_bare,
    "kafka": primitive.encode,
}


def encode_key(format: str, columns: tuple[Column, ...], values: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a key; None, Kafka's null key, for None.

    A null primitive has no bytes either, so format kafka can't tell a null column from a null key.
    """
    columns, values = _in_topic(columns, values)
    format, is_named = plain_names(format)
    if is_named:
        fields = fields_of(columns)
        columns, values = fields, renamed(values, columns, fields)
    format, as_numbers = epoch.plain_format(format)
    if as_numbers and values is not None:
        values = epoch.numbers(values)
    if values is None or (format == "kafka" and values.get(columns[0].name) is None):
        return None
    by = delimited.delimiter(format)
    return _ENCODERS[format](values, columns) if by is None else delimited.encode(values, columns, by)


def _in_topic(columns: tuple[Column, ...], values: dict[str, Any] | None) -> Any:
    """Columns and a row as the topic has them."""
    if not any(column.is_renamed for column in columns):
        return columns, values
    there = tuple(column.in_topic for column in columns)
    return there, renamed(values, columns, there)


def encode_value(format: str, columns: tuple[Column, ...], values: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a value; None, a tombstone, for None.

    With format kafka, a row whose one column is null becomes a tombstone too: primitives have no other null.
    """
    return encode_key(format, columns, values)
