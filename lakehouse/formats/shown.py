"""A value as a person reads it, on a terminal or in a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from lakehouse.formats.plain import finite, plain

BYTES_SHOWN = 200
ABSENT = "-"


def number(value: Any) -> str:
    """Return a number that names something, such as an offset, as it is typed; anything else as `cell` does."""
    return str(value) if isinstance(value, int) else cell(value)


def value(of: Any) -> str:
    """Return a value of a row as it is: 1999 and no comma, null, true; times in UTC, text where bytes are text."""
    match of:
        case None:
            return "null"
        case bool():
            return "true" if of else "false"
        case int():
            return str(of)
    return cell(of)


def pairs(values: Mapping[str, Any] | None) -> str | None:
    """Return columns and their values in one line: n=3, city=Rome. None for no row."""
    return None if values is None else ", ".join(f"{name}={value(of)}" for name, of in values.items())


def cell(value: Any) -> str:
    """Return a fact as a person reads it: 1,234,567, UTC times, text where bytes are text. Row values: `value`."""
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
            return bytes(value).decode("utf-8", "backslashreplace")[:BYTES_SHOWN]
        case Mapping() | list() | tuple():
            return _nested(value)
    return str(value)


def _nested(value: Any) -> str:
    """Return JSON in which a decimal is a number, with all its digits."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(str(n), ensure_ascii=False)}: {_nested(v)}' for n, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    return json.dumps(in_json(value), default=plain, ensure_ascii=False)


def moment(value: datetime | int | None, precision: str = "seconds") -> str:
    """Return a moment, or milliseconds since the epoch, as 2013-06-01 12:30:00Z, or with milliseconds."""
    if value is None:
        return ABSENT
    if isinstance(value, int):
        value = datetime.fromtimestamp(value / 1000, UTC)
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value.replace(tzinfo=None).isoformat(" ", precision) + "Z"


def in_json(value: Any) -> Any:
    """Return a value with NaN and the infinities as text: they are not JSON, and json.dumps calls no hook for them."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(name): in_json(item) for name, item in value.items()}
    return [in_json(item) for item in value] if isinstance(value, list | tuple) else value
