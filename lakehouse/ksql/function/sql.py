"""Pieces of Spark SQL, with the ksqlDB type of what they give."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression import name_text

INT_MAX = 2**31 - 1
BIGINT_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class Sql:
    """Spark SQL text, its type, and the text of a literal that it was (None for anything else).

    loose: of a condition, a shorter text that is null in some places where the condition is false.
    """

    text: str
    kind: Kind
    literal: str | None = None
    loose: str | None = None


def condition(loose: str) -> Sql:
    """Return a condition that is false where its text is null: a comparison with a null never holds in ksqlDB."""
    return Sql(f"coalesce({loose}, false)", k.BOOLEAN, loose=loose)


def copied(of: str) -> str:
    """Return the text of a copy of a value: what has a key's own text is the key itself."""
    return f"coalesce({of})"


def let(of: str, name: str, body: Callable[[str], str]) -> str:
    """Return Spark SQL over a value that is computed once, and has this name inside; a column or a literal has none."""
    if re.fullmatch(r"\w+|'[^']*'", of):
        return body(of)
    return f"get(transform(array({of}), {name} -> {body(name)}), 0)"


def as_int(of: Sql) -> Sql:
    """Return a whole number as an INTEGER; a BIGINT beyond is the farthest one with a number on the other side.

    As a place or a length that is as good.
    """
    if of.kind != k.BIGINT:
        return of
    if of.literal is not None:
        return literal(max(-INT_MAX, min(INT_MAX, int(of.literal))))
    ends = f"WHEN {of.text} > {INT_MAX} THEN {INT_MAX} WHEN {of.text} < {-INT_MAX} THEN {-INT_MAX}"
    return Sql(f"CASE {ends} ELSE cast({of.text} AS int) END", k.INTEGER)


def fitted(of: Sql, kind: Kind) -> Sql:
    """Return a value as one of a type that it has together with others; Spark itself makes whole numbers one type.

    But it gives a BIGINT another number of digits than ksqlDB where it meets a DECIMAL.
    """
    if of.kind in (kind, k.NULL) or not (kind.inner or "DECIMAL" in (kind.name, of.kind.name)):
        return of
    return Sql(f"cast({of.text} AS {kind.spark})", kind)


def column(name: str, kind: Kind) -> Sql:
    """Return a column by its name."""
    return Sql(name_text(name), kind)


def text(value: str) -> str:
    """Return a text as a literal of Spark SQL, which reads backslashes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(value: str | int | Decimal | float | bool | None) -> Sql:
    """Return a literal. A whole number is an INTEGER if it fits, 1.5 a DECIMAL, 1e0 a DOUBLE."""
    match value:
        case None:
            return Sql("NULL", k.NULL)
        case bool():
            return Sql(str(value).lower(), k.BOOLEAN)
        case str():
            return Sql(text(value), k.STRING, value)
        case int():
            if -INT_MAX - 1 <= value <= INT_MAX:
                return Sql(str(value), k.INTEGER, str(value))
            # Spark reads -9223372036854775808 as a minus before a number that is too large.
            shown = f"cast('{value}' AS bigint)" if value == BIGINT_MIN else str(value)
            return Sql(shown, k.BIGINT, str(value))
        case float():
            return Sql(f"cast('{value!r}' AS double)", k.DOUBLE, repr(value))
    digits = value.as_tuple()
    scale = max(0, -int(digits.exponent))
    kind = k.decimal(max(len(digits.digits) + max(0, int(digits.exponent)), scale), scale)
    return Sql(f"{value:f}", kind, f"{value:f}")
