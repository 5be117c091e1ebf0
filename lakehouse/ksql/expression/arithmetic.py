"""Types of computed values, positions in arrays, patterns: where ksqlDB's rules differ from Spark's."""

from __future__ import annotations

import re

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import SIGNED_DIGITS, Sql, exact_sum, fitted, text_literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind


def element_at(array: str, index: Sql) -> str:
    """Return an array's element: positions count from 1, negative ones from the end; null if there is none."""
    if index.literal is not None:
        number = int(index.literal)
        return f"get({array}, size({array}) - {-number})" if number < 0 else f"get({array}, {number - 1})"
    place = (
        f"CASE WHEN {index.text} > 0 THEN {index.text} - 1 WHEN {index.text} < 0 THEN size({array}) + {index.text} END"
    )
    return f"get({array}, cast({place} AS int))"


def arithmetic_kind(sign: str, left: Kind, right: Kind) -> Kind:
    """Return the type of a sum, a product and so on, by ksqlDB's rules; for DECIMAL they are standard SQL's."""
    if "DOUBLE" in (left.name, right.name):
        return k.DOUBLE
    if "DECIMAL" not in (left.name, right.name):
        return k.BIGINT if "BIGINT" in (left.name, right.name) else k.INTEGER
    (left_precision, left_scale), (right_precision, right_scale) = k.as_decimal(left).digits, k.as_decimal(right).digits
    match sign:
        case "+" | "-":
            return k.decimal_of(
                max(left_precision - left_scale, right_precision - right_scale) + max(left_scale, right_scale) + 1,
                max(left_scale, right_scale),
            )
        case "*":
            return k.decimal_of(left_precision + right_precision + 1, left_scale + right_scale)
        case "/":
            result_scale = max(6, left_scale + right_precision + 1)
            return k.decimal_of(left_precision - left_scale + right_scale + result_scale, result_scale)
    return k.decimal_of(
        min(left_precision - left_scale, right_precision - right_scale) + max(left_scale, right_scale),
        max(left_scale, right_scale),
    )


def compile_negation(number: Sql) -> Sql:
    """Return -number; Spark's own rounds a DECIMAL of many digits."""
    if number.kind.name != "DECIMAL" or number.kind.digits[0] <= SIGNED_DIGITS:
        return Sql(f"(- {number.text})", number.kind)
    negative_text = f"replace(concat('-', cast({number.text} AS string)), '--', '')"
    return Sql(f"cast({negative_text} AS {number.kind.spark})", number.kind)


def compile_arithmetic(sign: str, left: Sql, right: Sql, position: int) -> Sql:
    """Return left + right, and so on; + joins texts. Raises SqlError for types that have no arithmetic."""
    if left.kind.is_null or right.kind.is_null:
        known_kind = right.kind if left.kind.is_null else left.kind
        return Sql(f"cast(NULL AS {known_kind.spark})", known_kind)
    if left.kind == k.STRING and right.kind == k.STRING and sign == "+":
        return Sql(f"concat({left.text}, {right.text})", k.STRING)
    if not (left.kind.is_number and right.kind.is_number):
        raise SqlError(f"unsupported arithmetic types {left.kind} and {right.kind} for {sign}", position)
    result_kind = arithmetic_kind(sign, left.kind, right.kind)
    if sign == "/" and result_kind.is_whole:
        return Sql(f"cast({left.text} div {right.text} AS {result_kind.spark})", result_kind)
    # Spark gives a literal a DECIMAL type of just its own digits.
    if sign == "/" and result_kind.name == "DECIMAL":
        left, right = (
            fitted(operand, k.as_decimal(operand.kind)) if operand.kind.is_whole else operand
            for operand in (left, right)
        )
    operation = f"({left.text} {sign} {right.text})"
    if result_kind.name == "DECIMAL":
        if sign in "+-" and (made_exactly := exact_sum(sign, left, right, result_kind)) is not None:
            return Sql(made_exactly, result_kind)
        return Sql(f"cast({operation} AS {result_kind.spark})", result_kind)
    if sign in "/%" and result_kind == k.DOUBLE and (right.literal is None or not float(right.literal)):
        # Spark gives null. In Java a double divided by zero is infinite; 0 / 0 and a remainder by zero are NaN.
        special_word = "Infinity" if sign == "/" else "NaN"
        operation = (
            f"coalesce({operation}, CASE WHEN {right.text} = 0 THEN {left.text} * cast('{special_word}' AS double) END)"
        )
    return Sql(operation, result_kind)


def like_pattern(pattern: str, escape: str | None, position: int) -> str:
    """Return a pattern for Spark, whose escape character is the backslash; a character after an escape is literal."""
    spark_pattern, characters = "", iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise SqlError("a LIKE pattern must not end with its escape character", position)
            spark_pattern += following if following not in ("%", "_", "\\") else f"\\{following}"
        else:
            spark_pattern += "\\\\" if character == "\\" else character
    return spark_pattern


def escaped_pattern(pattern: str, escape: str | None) -> str:
    """Return the same for a pattern given as Spark SQL; null for a pattern that ends with its escape character."""
    if escape is None:
        return f"replace({pattern}, '\\\\', '\\\\\\\\')"
    escape_pattern = re.escape(escape)
    # Spark allows an escape character only before %, _ or itself; here any character may follow it.
    escape_regexp = f"({escape_pattern}[%_{escape_pattern}])|{escape_pattern}(.)"
    return f"regexp_replace({pattern}, {text_literal(escape_regexp)}, '$1$2') ESCAPE {text_literal(escape)}"
