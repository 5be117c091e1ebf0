"""CAST, and texts that are read as moments."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, time

from lakehouse.errors import SqlError
from lakehouse.ksql.function.moment import time_text
from lakehouse.ksql.function.sql import Sql, copied
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind

# Columns of times in milliseconds.
TIMES = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
TRUE_WORDS = "('true', 'tru', 'tr', 't', 'yes', 'ye', 'y')"  # as ksqlDB reads them; every other text is false
ISO = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSS"


def cast(of: Sql, to: Kind, at: int) -> Sql:
    """Return a cast; what fails is null. Raises SqlError for types between which there is none."""
    text, name = of.text, of.kind.name
    plain = Sql(f"cast({text} AS {to.spark})", to)
    if of.kind == to:  # a key that is cast is no longer the key
        return of if of.literal is not None else replace(of, text=copied(text))
    if of.kind.is_null:
        return plain
    if name in ("ARRAY", "MAP") and name == to.name:
        return plain
    if name == "STRUCT" and to.name == "STRUCT" and set(to.names) <= set(of.kind.names):
        return Sql(f"cast(named_struct({', '.join(_members(text, to))}) AS {to.spark})", to)
    match name, to.name:
        case ("STRING", "BOOLEAN"):
            return Sql(f"CASE WHEN {text} IS NOT NULL THEN lower(trim({text})) IN {TRUE_WORDS} END", to)
        case ("TIMESTAMP", "STRING"):
            return Sql(f"date_format({text}, '{ISO}')", to)
        case ("TIME", "STRING"):
            return Sql(time_text(text), to)
        case ("STRING", "TIME"):
            return Sql(f"cast(unix_millis(cast(concat('1970-01-01 ', {text}) AS timestamp)) AS int)", to)
        case ("TIMESTAMP", "TIME"):
            return Sql(f"cast(pmod(unix_millis({text}), 86400000) AS int)", to)
        case ("DATE", "STRING") | ("DATE", "TIMESTAMP") | ("TIMESTAMP", "DATE") | ("BOOLEAN", "STRING"):
            return plain
        case ("STRING", "DATE" | "TIMESTAMP" | "INTEGER" | "BIGINT" | "DOUBLE" | "DECIMAL"):
            if of.literal is not None and to.name in k.MOMENTS:
                return moment_literal(of.literal, to, at)
            if to.is_whole:
                # Spark cuts '1.5' off.
                return Sql(f"CASE WHEN {text} NOT LIKE '%.%' THEN {plain.text} END", to)
            return plain
    if of.kind.is_number and (to.is_number or to == k.STRING):
        return plain
    if to == k.STRING and name in ("ARRAY", "MAP", "STRUCT"):
        return Sql(_written(text, of.kind), to)
    raise SqlError(f"cast of {of.kind} to {to} is not supported", at)


def _written(text: str, kind: Kind, depth: int = 0) -> str:
    """An array, a map or a struct as Java writes it: [1, null], {a=1}, Struct{A=1}."""
    item = f"item{depth}"
    match kind.name:
        case "ARRAY":
            inner = _written(item, kind.inner[0], depth + 1)
            return f"concat('[', array_join(transform({text}, {item} -> {inner}), ', ', 'null'), ']')"
        case "MAP":
            value = f"coalesce({_written(f'{item}.value', kind.inner[1], depth + 1)}, 'null')"
            pairs = f"transform(map_entries({text}), {item} -> concat({item}.key, '=', {value}))"
            return f"concat('{{', array_join({pairs}, ', '), '}}')"
        case "STRUCT":
            members = [
                f"concat('{name}=', {_written(f'{text}.`{name}`', of, depth)})"
                for name, of in zip(kind.names, kind.inner, strict=True)
            ]
            return (
                f"CASE WHEN {text} IS NOT NULL THEN concat('Struct{{', concat_ws(',', {', '.join(members)}), '}}') END"
            )
    return cast(Sql(text, kind), k.STRING, 0).text


def _members(text: str, to: Kind) -> list[str]:
    return [f"'{name}', {text}.`{name}`" for name in to.names]


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


def as_times(one: t.Expr, other: t.Expr, left: Sql, right: Sql) -> tuple[Sql, Sql]:
    """Return two values that are compared: a text in quotes beside ROWTIME or a window's bound is read as a time."""
    return _time(left, one.at, other), _time(right, other.at, one)


def _time(of: Sql, at: int, beside: t.Expr) -> Sql:
    """A value, in milliseconds if it is a text beside a column of times."""
    if of.literal is None or of.kind != k.STRING or not isinstance(beside, t.Name) or beside.name not in TIMES:
        return of
    return Sql(f"unix_millis({moment_literal(of.literal, k.TIMESTAMP, at).text})", k.BIGINT)
