"""Decimals in Python, for the model: exact until they are cast to the type that they have in Spark; and BIGINTs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any
from unicodedata import decimal

from sqlglot import exp

from lakehouse.model.logic import BITS
from lakehouse.model.scalar import BLANKS, as_long, negated
from lakehouse.plan.written.parse import name_of
from lakehouse.semantics.number_text import LENGTH_MAX, NUMBER, exact

# More digits than any product of two decimals has; a quotient is rounded far behind the digits that Spark keeps.
_DIGITS = Context(prec=120, rounding=ROUND_HALF_UP)
_WIDEST = 38
_WIDE = Context(prec=2 * LENGTH_MAX)


def exactly(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator over decimals and integers, exact; null for a division by zero."""

    def run(a: Any, b: Any) -> Any:
        if isinstance(a, float) or isinstance(b, float):
            return work(float(a), float(b)) if b or work in (operator.add, operator.sub, operator.mul) else None
        with localcontext(_DIGITS):
            return None if not b and work in (operator.truediv, operator.mod) else work(Decimal(a), Decimal(b))

    return run


def to_decimal(precision: int, scale: int) -> Callable[[Any], Decimal | None]:
    """Return a cast to DECIMAL(precision, scale): rounded half up, null for what does not fit."""

    def cast(value: Any) -> Decimal | None:
        if isinstance(value, str):
            # Java reads the digits of all alphabets.
            value = "".join(str(decimal(sign)) if sign.isdecimal() and sign <= "\uffff" else sign for sign in value)
            if len(value) > LENGTH_MAX or not NUMBER.fullmatch(value.strip(BLANKS)):
                return None
            value = exact(value.strip(BLANKS))
            _, digits, exponent = value.as_tuple()
            if len(digits) + int(exponent) > _WIDEST:  # Spark looks at no zeros: 0e40 does not fit either
                return None
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            value = repr(value)
        number = Decimal(value)
        if number and number.adjusted() > precision:
            return None  # before rounding, which writes its digits out
        with localcontext(_WIDE):
            made = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        made = made if made else abs(made)
        return made if made.adjusted() < precision - scale or not made else None

    return cast


DECIMALS: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: exactly(operator.add), exp.Sub: exactly(operator.sub), exp.Mul: exactly(operator.mul),
    exp.Div: exactly(operator.truediv), exp.Mod: exactly(operator.mod),
}  # fmt: skip

_WHOLE: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul,
}  # fmt: skip
_INT_MAX = 2**31 - 1
_LONG_CALLS = ("unix_millis", "unix_micros", "unix_seconds")


def _is_long(node: exp.Expression) -> bool:
    """Say whether the text of an expression says that it is a BIGINT."""
    if isinstance(node, exp.Paren | exp.Neg):
        return _is_long(node.this)
    if isinstance(node, exp.Cast | exp.TryCast):
        return bool(node.args["to"].sql("spark").lower() == "bigint")
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdecimal() and int(node.name) > _INT_MAX
    if isinstance(node, exp.Anonymous):
        return name_of(node) in _LONG_CALLS
    return type(node) in _WHOLE and (_is_long(node.this) or _is_long(node.expression))


def long_arithmetic(node: exp.Expression, other: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return +, - or * over whole numbers of a known type, wrapping around as in Java; `other` over other values."""
    if type(node) not in _WHOLE:
        return other
    work, bits = _WHOLE[type(node)], 64 if _is_long(node.this) or _is_long(node.expression) else node.meta.get(BITS)
    if bits is None:
        return other
    return lambda a, b: as_long(work(a, b), bits) if type(a) is int and type(b) is int else other(a, b)


def negation(node: exp.Expression) -> Callable[[Any], Any]:
    """Return -, which wraps around where the type is known."""
    bits = node.meta.get(BITS)
    return negated if bits is None else lambda value: as_long(-value, bits)
