"""Moments written as literal texts."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax.kind import Kind


def moment_literal(text: str, kind: Kind, position: int) -> Sql:
    """Return the DATE, TIME or TIMESTAMP of a literal text, in UTC unless it names a zone.

    A year or a month alone means its first moment.
    """
    if kind.name != "TIME" and re.fullmatch(r"\d{4}(-\d\d)?", text):
        text += "-01-01"[len(text) - 10 :]
    try:
        match kind.name:
            case "DATE":
                return Sql(f"date'{date.fromisoformat(text[:10]).isoformat()}'", kind)
            case "TIME":
                time_of_day = time.fromisoformat(text)
                total_seconds = time_of_day.hour * 3600 + time_of_day.minute * 60 + time_of_day.second
                return Sql(str(total_seconds * 1000 + time_of_day.microsecond // 1000), kind)
        moment = datetime.fromisoformat(text)
    except ValueError:
        right_forms = "2026-01-31, 12:30:00 or 2026-01-31T12:30:00"
        raise SqlError(f"{text!r} is not a {kind}. Write it as {right_forms}", position) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        timestamp_text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except OverflowError:
        raise SqlError(f"{text!r} is outside the years 1 to 9999", position) from None
    return Sql(f"timestamp'{timestamp_text.zfill(26)}'", kind)
