"""Moments that are written as texts."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax.kind import Kind


def moment_literal(text: str, kind: Kind, at: int) -> Sql:
    """Return a DATE, TIME or TIMESTAMP that is written as a text, in UTC unless it says otherwise.

    A month or a year is its begin.
    """
    if kind.name != "TIME" and re.fullmatch(r"\d{4}(-\d\d)?", text):
        text += "-01-01"[len(text) - 10 :]
    try:
        match kind.name:
            case "DATE":
                return Sql(f"date'{date.fromisoformat(text[:10]).isoformat()}'", kind)
            case "TIME":
                of = time.fromisoformat(text)
                seconds = of.hour * 3600 + of.minute * 60 + of.second
                return Sql(str(seconds * 1000 + of.microsecond // 1000), kind)
        moment = datetime.fromisoformat(text)
    except ValueError:
        right = "2026-01-31, 12:30:00 or 2026-01-31T12:30:00"
        raise SqlError(f"{text!r} is not a {kind}. Write it as {right}", at) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        shown = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except OverflowError:
        raise SqlError(f"{text!r} is outside the years 1 to 9999", at) from None
    return Sql(f"timestamp'{shown.zfill(26)}'", kind)
