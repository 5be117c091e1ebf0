"""Moments in topics: a DATE is days since 1970 there, a TIMESTAMP milliseconds since then."""

from __future__ import annotations

from lakehouse.ksql.syntax.kind import ON_THE_WAY, Kind

_IN = {"DATE": "date_from_unix_date", "TIMESTAMP": "timestamp_millis"}
_OUT = {"DATE": "unix_date", "TIMESTAMP": "unix_millis"}


def has_moment(kind: Kind) -> bool:
    """Say whether a type is or contains a moment that topics hold as a number."""
    return kind.name in ON_THE_WAY or any(map(has_moment, kind.inner))


def sql_from_topic(text: str, kind: Kind) -> str:
    """Return Spark SQL that turns a value as a topic holds it into the value used here."""
    return _convert_moments(text, kind, _IN, 0)


def sql_to_topic(text: str, kind: Kind) -> str:
    """Return Spark SQL that turns a value used here into the value that a topic holds."""
    return _convert_moments(text, kind, _OUT, 0)


def _convert_moments(text: str, kind: Kind, functions: dict[str, str], depth: int) -> str:
    if not has_moment(kind):
        return text
    if kind.name in functions:
        return f"{functions[kind.name]}({text})"
    item = f"item{depth}"

    def convert_inner(inner_text: str, inner_kind: Kind) -> str:
        return _convert_moments(inner_text, inner_kind, functions, depth + 1)

    if kind.name == "ARRAY":
        return f"transform({text}, {item} -> {convert_inner(item, kind.inner[0])})"
    if kind.name == "MAP":
        return f"transform_values({text}, (key{depth}, {item}) -> {convert_inner(item, kind.inner[1])})"
    field_texts = [
        f"'{field_name}', {convert_inner(f'{text}.`{field_name}`', inner_text)}"
        for field_name, inner_text in zip(kind.names, kind.inner, strict=True)
    ]
    return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(field_texts)}) END"
