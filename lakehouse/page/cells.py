"""Values of rows as a browser can show them: JSON that loses nothing, no more of them than fit a page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from lakehouse.errors import ConfigError

ROWS_MAX = 500
TEXT_MAX = 2_000
KEY_MAX = 1_000
EXACT_MAX = 2**53  # JavaScript has no larger exact integers


def cell(value: Any) -> Any:
    """Return a value as null, a boolean, a number or text; what is nested as its JSON text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= EXACT_MAX else str(value)
        case float():
            return value if math.isfinite(value) else _named(value)
        case str():
            return cut(value)
        case Mapping() | list() | tuple():
            return cut(json.dumps(_nested(value), ensure_ascii=False))
    return cut(_text(value))


def cells(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a row's values by their names; None for no row."""
    return None if row is None else {name: cell(value) for name, value in row.items()}


def cut(text: str) -> str:
    """Return a text, its end left out where it is too long to be shown."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text):,} characters)"


def checked_key(text: str | None) -> str | None:
    """Return a key's text, None for none; ConfigError for one that is too long to be looked for."""
    if text is not None and len(text) > KEY_MAX:
        raise ConfigError(f"key: found {len(text):,} characters; expected {KEY_MAX:,} at the most.")
    return text or None


def _nested(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _named(value)
        case Mapping():
            return {str(name): _nested(item) for name, item in value.items()}
        case list() | tuple():
            return [_nested(item) for item in value]
    return _text(value)


def _named(value: float) -> str:
    """NaN and the infinities are no JSON: as text, the way that Spark writes them."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: Any) -> str:
    match value:
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case bytes() | bytearray():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return f"0x{bytes(value).hex()}"
    return str(value)
