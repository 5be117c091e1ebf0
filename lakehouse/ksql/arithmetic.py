"""Types of computed values, places in arrays, patterns: where ksqlDB's rules are not Spark's."""

from __future__ import annotations

import re

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql, fitted, let, text
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind


def element_at(of: str, index: Sql) -> str:
    """Return an array's element, counted from 1, or from its end with a negative number; null where there is none."""
    if index.literal is not None:
        number = int(index.literal)
        return f"get({of}, size({of}) - {-number})" if number < 0 else f"get({of}, {number - 1})"
    place = f"CASE WHEN {index.text} > 0 THEN {index.text} - 1 WHEN {index.text} < 0 THEN size({of}) + {index.text} END"
    return f"get({of}, cast({place} AS int))"


def arithmetic(sign: str, left: Kind, right: Kind) -> Kind:
    """Return the type of a sum, a product and so on, by ksqlDB's rules, which are SQL's for DECIMAL."""
    if "DOUBLE" in (left.name, right.name):
        return k.DOUBLE
    if "DECIMAL" not in (left.name, right.name):
        return k.BIGINT if "BIGINT" in (left.name, right.name) else k.INTEGER
    (p, s), (q, r) = k.as_decimal(left).digits, k.as_decimal(right).digits
    match sign:
        case "+" | "-":
            return k.decimal(max(p - s, q - r) + max(s, r) + 1, max(s, r))
        case "*":
            return k.decimal(p + q + 1, s + r)
        case "/":
            scale = max(6, s + q + 1)
            return k.decimal(p - s + r + scale, scale)
    return k.decimal(min(p - s, q - r) + max(s, r), max(s, r))


def computed(sign: str, left: Sql, right: Sql, at: int) -> Sql:
    """Return left + right, and so on; + joins texts. Raises SqlError for types that have no arithmetic."""
    if left.kind.is_null or right.kind.is_null:
        other = right.kind if left.kind.is_null else left.kind
        return Sql(f"cast(NULL AS {other.spark})", other)
    if left.kind == k.STRING and right.kind == k.STRING and sign == "+":
        return Sql(f"concat({left.text}, {right.text})", k.STRING)
    if not (left.kind.is_number and right.kind.is_number):
        raise SqlError(f"unsupported arithmetic types {left.kind} and {right.kind} for {sign}", at)
    kind = arithmetic(sign, left.kind, right.kind)
    if sign == "/" and kind.is_whole:
        return Sql(f"cast({left.text} div {right.text} AS {kind.spark})", kind)
    if sign == "/" and kind.name == "DECIMAL":  # Spark takes a written number for one of as many digits as it has
        left, right = (fitted(of, k.as_decimal(of.kind)) if of.kind.is_whole else of for of in (left, right))
    made = f"({left.text} {sign} {right.text})"
    if kind.name == "DECIMAL":
        if sign in "+-" and (made_exactly := _exact_sum(sign, left, right, kind)) is not None:
            return Sql(made_exactly, kind)
        return Sql(f"cast({made} AS {kind.spark})", kind)
    if sign in "/%" and kind == k.DOUBLE and (right.literal is None or not float(right.literal)):
        # Spark's is null. In Java a number by zero is infinite, and zero by zero, or what is left over, is no number.
        word = "Infinity" if sign == "/" else "NaN"
        made = f"coalesce({made}, CASE WHEN {right.text} = 0 THEN {left.text} * cast('{word}' AS double) END)"
    return Sql(made, kind)


def _exact_sum(sign: str, left: Sql, right: Sql, kind: Kind) -> str | None:
    """A sum with all its digits, where its type has more than Spark's 38 and Spark would round it; None if it has not.

    It is made of operands of fewer digits before the point; only one that has more is rounded.
    """
    kinds = [k.as_decimal(of.kind) for of in (left, right)]
    scale = max(scale for _, scale in (of.digits for of in kinds))
    whole, room = max(digits - own for digits, own in (of.digits for of in kinds)), k.DIGITS_MAX - 1 - scale
    if whole <= room or room < 1:
        return None
    small = [k.decimal(min(digits, room + own), own).spark for digits, own in (of.digits for of in kinds)]

    def added(one: str, other: str) -> str:
        exact = f"cast(cast({one} AS {small[0]}) {sign} cast({other} AS {small[1]}) AS {kind.spark})"
        return f"coalesce({exact}, cast({one} {sign} {other} AS {kind.spark}))"

    return let(left.text, "_left", lambda one: let(right.text, "_right", lambda other: added(one, other)))


def like_pattern(pattern: str, escape: str | None, at: int) -> str:
    """Return a pattern for Spark, whose escape character is the backslash. What follows an escape is itself."""
    made, rest = "", iter(pattern)
    for character in rest:
        if character == escape:
            following = next(rest, None)
            if following is None:
                raise SqlError("a LIKE pattern must not end with its escape character", at)
            made += following if following not in ("%", "_", "\\") else f"\\{following}"
        else:
            made += "\\\\" if character == "\\" else character
    return made


def escaped_pattern(pattern: str, escape: str | None) -> str:
    """Return the same of a pattern that is Spark SQL; one that ends with its escape character is null."""
    if escape is None:
        return f"replace({pattern}, '\\\\', '\\\\\\\\')"
    own = re.escape(escape)
    # In Spark an escape character stands before %, _ or itself alone; here what follows one is itself.
    kept = f"({own}[%_{own}])|{own}(.)"
    return f"regexp_replace({pattern}, {text(kept)}, '$1$2') ESCAPE {text(escape)}"
