"""Moments on the way in and out: a DATE is days since 1970 there, a TIMESTAMP milliseconds."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.ksql.syntax.kind import ON_THE_WAY, Kind

_IN = {"DATE": "date_from_unix_date", "TIMESTAMP": "timestamp_millis"}
_OUT = {"DATE": "unix_date", "TIMESTAMP": "unix_millis"}


def has_moment(kind: Kind) -> bool:
    """Say whether a type is, or has in it, a moment that is a number on the way."""
    return kind.name in ON_THE_WAY or any(map(has_moment, kind.inner))


def sql_from_topic(text: str, kind: Kind) -> str:
    """Return Spark SQL for a value as it is here, of one as it was read."""
    return _convert_moments(text, kind, _IN, 0)


def sql_to_topic(text: str, kind: Kind) -> str:
    """Return Spark SQL for a value as it is written, of one as it is here."""
    return _convert_moments(text, kind, _OUT, 0)


def _convert_moments(text: str, kind: Kind, functions: dict[str, str], depth: int) -> str:
    if not has_moment(kind):
        return text
    if kind.name in functions:
        return f"{functions[kind.name]}({text})"
    item = f"item{depth}"
    convert_inner: Callable[[str, Kind], str] = lambda inner_text, inner_kind: _convert_moments(
        inner_text, inner_kind, functions, depth + 1
    )  # noqa: E731
    if kind.name == "ARRAY":
        return f"transform({text}, {item} -> {convert_inner(item, kind.inner[0])})"
    if kind.name == "MAP":
        return f"transform_values({text}, (key{depth}, {item}) -> {convert_inner(item, kind.inner[1])})"
    field_texts = [
        f"'{field_name}', {convert_inner(f'{text}.`{field_name}`', inner_text)}"
        for field_name, inner_text in zip(kind.names, kind.inner, strict=True)
    ]
    return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(field_texts)}) END"
