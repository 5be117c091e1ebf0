"""Pieces of Spark SQL, with the ksqlDB type of what they give."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression import name_text

INT_MAX = 2**31 - 1
BIGINT_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class Sql:
    """Spark SQL text, its type, and the text of a literal that it was (None for anything else)."""

    text: str
    kind: Kind
    literal: str | None = None


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
    kind = k.decimal(max(len(digits.digits), scale), scale)
    return Sql(f"{value:f}", kind, f"{value:f}")
