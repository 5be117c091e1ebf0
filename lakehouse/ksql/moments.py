"""Moments on the way in and out: a DATE is days since 1970 there, a TIMESTAMP milliseconds."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.ksql.syntax.kind import ON_THE_WAY, Kind

_IN = {"DATE": "date_from_unix_date", "TIMESTAMP": "timestamp_millis"}
_OUT = {"DATE": "unix_date", "TIMESTAMP": "unix_millis"}


def has_moment(kind: Kind) -> bool:
    """Say whether a type is, or has in it, a moment that is a number on the way."""
    return kind.name in ON_THE_WAY or any(map(has_moment, kind.inner))


def arrived(text: str, kind: Kind) -> str:
    """Return Spark SQL for a value as it is here, of one as it was read."""
    return _changed(text, kind, _IN, 0)


def leaving(text: str, kind: Kind) -> str:
    """Return Spark SQL for a value as it is written, of one as it is here."""
    return _changed(text, kind, _OUT, 0)


def _changed(text: str, kind: Kind, functions: dict[str, str], depth: int) -> str:
    if not has_moment(kind):
        return text
    if kind.name in functions:
        return f"{functions[kind.name]}({text})"
    item = f"item{depth}"
    inner: Callable[[str, Kind], str] = lambda of, at: _changed(of, at, functions, depth + 1)  # noqa: E731
    if kind.name == "ARRAY":
        return f"transform({text}, {item} -> {inner(item, kind.inner[0])})"
    if kind.name == "MAP":
        return f"transform_values({text}, (key{depth}, {item}) -> {inner(item, kind.inner[1])})"
    fields = [f"'{n}', {inner(f'{text}.`{n}`', of)}" for n, of in zip(kind.names, kind.inner, strict=True)]
    return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(fields)}) END"
