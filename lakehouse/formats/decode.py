"""A record read through its source's schema: rows, nulls, or the reason for the quarantine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.formats import delimited, epoch, json_value, primitive
from lakehouse.formats.unfit import Unfit
from lakehouse.model.model import Bad, Decoded
from lakehouse.plan.origin import Source
from lakehouse.plan.schema import Column
from lakehouse.semantics import windowed_key
from lakehouse.semantics.moment import moment
from lakehouse.semantics.record import Record
from lakehouse.semantics.window import Window

_DECODERS: dict[str, Callable[[bytes, tuple[Column, ...]], dict[str, Any] | None]] = {
    "json": json_value.decode,
    "json_any_case": json_value.decode_any_case,
    "json_bare": json_value.decode_bare,
    "kafka": primitive.decode,
    "none": lambda data, columns: None,
}


def decode_columns(format: str, columns: tuple[Column, ...], data: bytes | None) -> dict[str, Any] | None:
    """Return the row in the bytes of a key or a value; None for a null. Raises Unfit, with the reason."""
    if data is None:
        return None
    format, window = windowed_key.window_of(format)
    if window is not None:
        return _windowed(format, window, columns, data)
    format, as_numbers = epoch.plain_format(format)
    if as_numbers:
        return epoch.moments(decode_columns(format, epoch.number_columns(columns), data), columns)
    by = delimited.delimiter(format)
    return _DECODERS[format](data, columns) if by is None else delimited.decode(data, columns, by)


def _windowed(format: str, window: Window, columns: tuple[Column, ...], data: bytes) -> dict[str, Any] | None:
    """The row of a key, with the bounds of its window in the last two columns."""
    found = windowed_key.parts(data, window)
    if found is None:
        raise Unfit(f"expected the bounds of a window after the key, found {len(data)} bytes: 0x{data.hex()}")
    own, span = found
    try:
        bounds = dict(zip((column.name for column in columns[-2:]), map(moment, span), strict=True))
    except OverflowError as error:
        raise Unfit(f"the window from {span.start} to {span.end} is outside of the calendar") from error
    row = decode_columns(format, columns[:-2], own)
    return None if row is None else row | bounds


def decode(source: Source, record: Record) -> Decoded | Bad:
    """Return a record's key and value as rows, or the reason why they can't be read. The key is read first."""
    what = "key"
    try:
        key = decode_columns(source.key_format, source.key, record.key)
        what = "value"
        return Decoded(key, decode_columns(source.value_format, source.value, record.value))
    except Unfit as error:
        return Bad(f"{what}: {error}")
