"""Decimals for the model, exact until a cast to their type in Spark; and arithmetic of BIGINTs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any
from unicodedata import decimal

from sqlglot import exp

from lakehouse.model.function.scalar import negate_number, wrap_around
from lakehouse.model.logic import BITS
from lakehouse.plan.spark_functions.table import function_named
from lakehouse.plan.written.parse import name_of_call
from lakehouse.semantics.blanks import JAVA_BLANKS
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX
from lakehouse.semantics.number_text import LENGTH_MAX, NUMBER, exact_decimal

# More digits than any product of two decimals has; quotients are rounded far beyond the digits that Spark keeps.
_DIGITS = Context(prec=120, rounding=ROUND_HALF_UP)
_WIDE = Context(prec=2 * LENGTH_MAX)


def exact_operator(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator over decimals and integers, exact; null for a division by zero."""

    def run(left_value: Any, right_value: Any) -> Any:
        if isinstance(left_value, float) or isinstance(right_value, float):
            return (
                operation(float(left_value), float(right_value))
                if right_value or operation in (operator.add, operator.sub, operator.mul)
                else None
            )
        with localcontext(_DIGITS):
            return (
                None
                if not right_value and operation in (operator.truediv, operator.mod)
                else operation(Decimal(left_value), Decimal(right_value))
            )

    return run


def to_decimal(precision: int, scale: int) -> Callable[[Any], Decimal | None]:
    """Return a cast to DECIMAL(precision, scale): rounded half up, null for a value that does not fit."""

    def cast(value: Any) -> Decimal | None:
        if isinstance(value, str):
            # Java reads the digits of all scripts.
            value = "".join(
                str(decimal(character)) if character.isdecimal() and character <= "\uffff" else character
                for character in value
            )
            if len(value) > LENGTH_MAX or not NUMBER.fullmatch(value.strip(JAVA_BLANKS)):
                return None
            value = exact_decimal(value.strip(JAVA_BLANKS))
            _, digits, exponent = value.as_tuple()
            # Spark counts zeros like other digits: 0e40 does not fit either.
            if len(digits) + int(exponent) > DECIMAL_DIGITS_MAX:
                return None
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            value = repr(value)
        decimal_value = Decimal(value)
        if decimal_value and decimal_value.adjusted() > precision:
            return None  # before rounding, which would write out all digits
        with localcontext(_WIDE):
            rounded = decimal_value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        rounded = rounded if rounded else abs(rounded)
        return rounded if rounded.adjusted() < precision - scale or not rounded else None

    return cast


DECIMALS: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: exact_operator(operator.add), exp.Sub: exact_operator(operator.sub), exp.Mul: exact_operator(operator.mul),
    exp.Div: exact_operator(operator.truediv), exp.Mod: exact_operator(operator.mod),
}  # fmt: skip

_WHOLE_OPERATORS: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul,
}  # fmt: skip
_INT_MAX = 2**31 - 1


def _is_long(node: exp.Expression) -> bool:
    """Say whether an expression's own text makes it a BIGINT."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.name == str(_INT_MAX + 1):
        return False  # with its sign it is the smallest INT
    if isinstance(node, exp.Paren | exp.Neg):
        return _is_long(node.this)
    if isinstance(node, exp.Cast | exp.TryCast):
        return bool(node.args["to"].sql("spark").lower() == "bigint")
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdecimal() and int(node.name) > _INT_MAX
    if isinstance(node, exp.Anonymous):
        return function_named(name_of_call(node)).type == "bigint"
    return type(node) in _WHOLE_OPERATORS and (_is_long(node.this) or _is_long(node.expression))


def long_arithmetic(node: exp.Expression, fallback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return +, - or * over whole numbers of a known type, wrapping around as in Java; `fallback` over other values."""
    if type(node) not in _WHOLE_OPERATORS:
        return fallback
    operation, bit_count = (
        _WHOLE_OPERATORS[type(node)],
        64 if _is_long(node.this) or _is_long(node.expression) else node.meta.get(BITS),
    )
    if bit_count is None:
        return fallback
    return lambda a, b: wrap_around(operation(a, b), bit_count) if type(a) is int and type(b) is int else fallback(a, b)


def negation_for_type(node: exp.Expression) -> Callable[[Any], Any]:
    """Return the minus sign's function, which wraps around if the type is known."""
    bit_count = node.meta.get(BITS)
    return negate_number if bit_count is None else lambda value: wrap_around(-value, bit_count)
