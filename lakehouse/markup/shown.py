"""A value as a person reads it, on a terminal or in a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from lakehouse.markup.plain import finite_or_text, plain_text

LONGEST_BYTES = 200
ABSENT = "-"


def number(value: Any) -> str:
    """Return a number that identifies something, such as an offset, without commas; anything else as `cell` does."""
    return str(value) if isinstance(value, int) else cell(value)


def value(row_value: Any) -> str:
    """Return a row's value unadorned: 1999 without a comma, null, true; times in UTC, bytes as text if possible."""
    match row_value:
        case None:
            return "null"
        case bool():
            return "true" if row_value else "false"
        case int():
            return str(row_value)
    return cell(row_value)


def pairs(values: Mapping[str, Any] | None) -> str | None:
    """Return columns and their values in one line: n=3, city=Rome. None for no row."""
    return (
        None if values is None else ", ".join(f"{name}={value(column_value)}" for name, column_value in values.items())
    )


def cell(value: Any) -> str:
    """Return a fact for people: 1,234,567, times in UTC, bytes as text if possible. For a row's values: `value`."""
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return moment(value, "milliseconds" if value.microsecond else "seconds")
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "backslashreplace")[:LONGEST_BYTES]
        case Mapping() | list() | tuple():
            return _format_nested(value)
    return str(value)


def _format_nested(value: Any) -> str:
    """Return a value as JSON in which a decimal is a number with all its digits."""
    if isinstance(value, Mapping):
        members = [f"{json.dumps(str(name), ensure_ascii=False)}: {_format_nested(v)}" for name, v in value.items()]
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_nested, value))}]"
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    return json.dumps(without_not_finite(value), default=plain_text, ensure_ascii=False)


def moment(value: datetime | int | None, precision: str = "seconds") -> str:
    """Return a time, or milliseconds since the epoch, as 2013-06-01 12:30:00Z, or with milliseconds."""
    if value is None:
        return ABSENT
    if isinstance(value, int):
        value = datetime.fromtimestamp(value / 1000, UTC)
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value.replace(tzinfo=None).isoformat(" ", precision) + "Z"


def without_not_finite(value: Any) -> Any:
    """Return a value with NaN and infinities as text: they are not JSON, and json.dumps calls no hook for them."""
    if isinstance(value, float):
        return finite_or_text(value)
    if isinstance(value, Mapping):
        return {str(name): without_not_finite(item) for name, item in value.items()}
    return [without_not_finite(item) for item in value] if isinstance(value, list | tuple) else value
