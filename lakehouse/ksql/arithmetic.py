"""Types of computed values, places in arrays, patterns: where ksqlDB's rules are not Spark's."""

from __future__ import annotations

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind


def element_at(of: str, index: Sql) -> str:
    """Return an array's element, counted from 1, or from its end with a negative number; null where there is none."""
    if index.literal is not None:
        number = int(index.literal)
        return f"get({of}, {number - 1})" if number > 0 else f"get({of}, size({of}) - {-number})" if number else "NULL"
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


def common(items: list[Sql], what: str, at: int) -> Kind:
    """Return the type that values have together; SqlError if there is none."""
    kind = k.common([of.kind for of in items])
    if kind is None or not items:
        kinds = ", ".join(dict.fromkeys(str(of.kind) for of in items)) or "nothing"
        raise SqlError(f"{what} needs values of one type, found {kinds}", at)
    return kind


def like_pattern(pattern: str, escape: str | None, at: int) -> str:
    """Return a pattern for Spark, whose escape character is the backslash."""
    made, rest = "", iter(pattern)
    for character in rest:
        if character == escape:
            following = next(rest, None)
            if following not in ("%", "_", escape):
                raise SqlError("the escape character stands before %, _ or itself", at)
            made += following if following not in ("%", "_", "\\") else f"\\{following}"
        else:
            made += "\\\\" if character == "\\" else character
    return made
