"""Values that have no form in JSON, as text for people: on the command line and on the page."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any


def plain_text(value: Any) -> str:
    """Return a value that json can't write as text, bytes that are not UTF-8 as base64: for `json.dumps(default=)`."""
    match value:
        case datetime():
            aware_time = value if value.tzinfo else value.replace(tzinfo=UTC)
            return aware_time.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case bytes() | bytearray():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return "base64:" + base64.b64encode(value).decode()
    return str(value)


def finite_or_text(value: float) -> float | str:
    """Return a number, or Spark's text for NaN and the infinities, which are not JSON."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
