"""Pieces of Spark SQL, with the ksqlDB types of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression.expression import name_text
from lakehouse.semantics.blanks import JAVA_BLANKS
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

INT_MAX = 2**31 - 1
BIGINT_MIN = -(2**63)
SIGNED_DIGITS = 34  # a DECIMAL of more is rounded where Spark changes its sign


@dataclass(frozen=True, slots=True)
class Sql:
    """Spark SQL text, its type, and the text of the literal that it came from (None for anything else).

    loose: a condition's shorter text, which is null in some places where the condition is false.
    """

    text: str
    kind: Kind
    literal: str | None = None
    loose: str | None = None


def condition_sql(loose: str) -> Sql:
    """Return a condition that is false where its text is null: a comparison with a null never holds in ksqlDB."""
    return Sql(f"coalesce({loose}, false)", k.BOOLEAN, loose=loose)


def copy_sql(value_text: str) -> str:
    """Return the text of a copy of a value: the plain text of a key would be the key itself."""
    return f"coalesce({value_text})"


def let_sql(value_text: str, name: str, body: Callable[[str], str]) -> str:
    """Return Spark SQL that computes a value once, under this name; a column or a literal stays as it is."""
    if re.fullmatch(r"\w+|'[^']*'", value_text):
        return body(value_text)
    return f"get(transform(array({value_text}), {name} -> {body(name)}), 0)"


def map_of_last(count: str, key: str, value: str) -> str:
    """Return Spark SQL for a map of entries at the places 0 to count - 1: of a key, the last one counts, at its place.

    key, value: texts with the name _place; count: more than 0.
    """
    # Of two entries with one key, the session's map_from_entries takes the last.
    last_places = f"map_values(map_from_entries(transform(sequence(0, {count} - 1), _place -> struct({key}, _place))))"
    return f"map_from_entries(transform(array_sort({last_places}), _place -> struct({key}, {value})))"


def as_int(number: Sql) -> Sql:
    """Return a whole number as an INTEGER; a BIGINT beyond becomes the farthest INTEGER that can still be negated.

    For a position or a length that makes no difference.
    """
    if number.kind != k.BIGINT:
        return number
    if number.literal is not None:
        return literal_sql(max(-INT_MAX, min(INT_MAX, int(number.literal))))
    ends = f"WHEN {number.text} > {INT_MAX} THEN {INT_MAX} WHEN {number.text} < {-INT_MAX} THEN {-INT_MAX}"
    return Sql(f"CASE {ends} ELSE cast({number.text} AS int) END", k.INTEGER)


def fitted(value: Sql, kind: Kind) -> Sql:
    """Return a value, cast to the common type that it has with others if Spark itself would not do so.

    Spark widens whole numbers itself, but beside a DECIMAL it gives a BIGINT other digits than ksqlDB.
    """
    if value.kind in (kind, k.NULL) or not (kind.inner or "DECIMAL" in (kind.name, value.kind.name)):
        return value
    return Sql(f"cast({value.text} AS {kind.spark})", kind)


def exact_sum(sign: str, left: Sql, right: Sql, kind: Kind) -> str | None:
    """Return a sum with all its digits if its type needs more than Spark's 38, so that Spark would round; else None.

    The operands are first cast to fewer digits before the point; only an operand that has more is rounded.
    """
    kinds = [k.as_decimal(operand.kind) for operand in (left, right)]
    scale = max(scale for _, scale in (operand_kind.digits for operand_kind in kinds))
    whole_digits, room = (
        max(digits - own for digits, own in (operand_kind.digits for operand_kind in kinds)),
        DECIMAL_DIGITS_MAX - 1 - scale,
    )
    if whole_digits <= room or room < 1:
        return None
    short_types = [
        k.decimal_of(min(digits, room + own), own).spark
        for digits, own in (operand_kind.digits for operand_kind in kinds)
    ]

    def add_exactly(left_text: str, right_text: str) -> str:
        exact = (
            f"cast(cast({left_text} AS {short_types[0]}) {sign} cast({right_text} AS {short_types[1]}) AS {kind.spark})"
        )
        return f"coalesce({exact}, cast({left_text} {sign} {right_text} AS {kind.spark}))"

    return let_sql(
        left.text,
        "_left",
        lambda left_text: let_sql(right.text, "_right", lambda right_text: add_exactly(left_text, right_text)),
    )


def column_sql(name: str, kind: Kind) -> Sql:
    """Return a column's Spark SQL."""
    return Sql(name_text(name), kind)


def trimmed(text: str) -> str:
    """Return a text without the blanks around it that Java trims: Spark's own trim leaves tabs and line ends."""
    return f"btrim({text}, '{JAVA_BLANKS}')"


def text_literal(value: str) -> str:
    """Return a text as a literal of Spark SQL, its backslashes escaped."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal_sql(value: str | int | Decimal | float | bool | None) -> Sql:
    """Return a literal. A whole number is an INTEGER if it fits, 1.5 a DECIMAL, 1e0 a DOUBLE."""
    match value:
        case None:
            return Sql("NULL", k.NULL)
        case bool():
            return Sql(str(value).lower(), k.BOOLEAN)
        case str():
            return Sql(text_literal(value), k.STRING, value)
        case int():
            if -INT_MAX - 1 <= value <= INT_MAX:
                return Sql(str(value), k.INTEGER, str(value))
            # Spark takes -9223372036854775808 for a minus before a number that is too large.
            bigint_text = f"cast('{value}' AS bigint)" if value == BIGINT_MIN else str(value)
            return Sql(bigint_text, k.BIGINT, str(value))
        case float():
            return Sql(f"cast('{value!r}' AS double)", k.DOUBLE, repr(value))
    digits = value.as_tuple()
    scale = max(0, -int(digits.exponent))
    decimal_kind = k.decimal_of(max(len(digits.digits) + max(0, int(digits.exponent)), scale), scale)
    return Sql(f"{value:f}", decimal_kind, f"{value:f}")
