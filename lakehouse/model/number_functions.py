"""Spark SQL's functions of numbers in Python, for the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.semantics.aggregate.aggregate import LONG_MAX, LONG_MIN

_DIGITS = 100  # more than any decimal has


def _number(work: Callable[[float], float]) -> Callable[[Any], float]:
    """A function as Java has it: no number outside of its domain, infinite beyond the largest double."""

    def run(value: Any) -> float:
        try:
            return work(float(value))
        except ValueError:
            return math.nan
        except OverflowError:
            return -math.inf if value < 0 and work is math.sinh else math.inf

    return run


def _whole(work: Callable[[Any], int], rounding: str) -> Callable[..., Any]:
    def run(value: Any, places: int = 0) -> Any:
        if not isinstance(value, Decimal):
            if places:
                raise NeedsSpark(f"the model does not round {value!r} at a place; run this on Spark.")
            if not math.isfinite(value):
                return 0 if math.isnan(value) else LONG_MAX if value > 0 else LONG_MIN
            return max(LONG_MIN, min(LONG_MAX, work(value)))  # a BIGINT, cut off as in Java
        with localcontext(prec=_DIGITS):
            at_place = value.scaleb(places).to_integral_value(rounding).scaleb(-places)
            rounded = at_place.quantize(Decimal(1).scaleb(-max(places, 0)))
        return rounded if rounded else abs(rounded)

    return run


def _sign(value: Any) -> float:
    if isinstance(value, float) and (value == 0 or math.isnan(value)):
        return value
    return float((value > 0) - (value < 0))


def _power(base: float, exponent: float) -> float:
    if math.isnan(exponent) or (math.isinf(exponent) and abs(base) == 1):
        return math.nan  # to Python it is 1
    try:
        return math.pow(base, exponent)
    except ValueError:
        if base != 0:
            return math.nan
        is_odd = float(exponent).is_integer() and exponent % 2 == 1
        return math.copysign(math.inf, base) if is_odd else math.inf
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def _ln(value: Any) -> float | None:
    if isinstance(value, float) and math.isnan(value):
        return value
    return math.log(value) if value > 0 else None


STRICT: dict[str, Callable[..., Any]] = {
    "sign": _sign,
    "ln": _ln,
    "asin": _number(math.asin),
    "acos": _number(math.acos),
    "atan2": lambda a, b: math.atan2(a + 0.0, b + 0.0),  # as Spark: there is no -0.0
    "cot": _number(lambda value: 1 / math.tan(value) if value else math.copysign(math.inf, value)),
    "power": _power,
    "sqrt": _number(math.sqrt),
    "exp": _number(math.exp),
    "cbrt": _number(math.cbrt),
    "sin": _number(math.sin),
    "cos": _number(math.cos),
    "tan": _number(math.tan),
    "atan": _number(math.atan),
    "sinh": _number(math.sinh),
    "cosh": _number(math.cosh),
    "tanh": _number(math.tanh),
    "degrees": _number(math.degrees),
    "radians": _number(math.radians),
    "floor": _whole(math.floor, ROUND_FLOOR),
    "ceil": _whole(math.ceil, ROUND_CEILING),
}
