"""Spark SQL's functions of numbers over Python values, for the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.semantics.aggregate.aggregate import LONG_MAX, LONG_MIN

_DIGITS = 100  # more than any decimal has


def _double_function(function: Callable[[float], float]) -> Callable[[Any], float]:
    """Return a function with Java's results: NaN outside of its domain, infinite beyond the largest double."""

    def run(value: Any) -> float:
        try:
            return function(float(value))
        except ValueError:
            return math.nan
        except OverflowError:
            return -math.inf if value < 0 and function is math.sinh else math.inf

    return run


def _rounding_function(round_number: Callable[[Any], int], rounding_mode: str) -> Callable[..., Any]:
    def run(value: Any, decimal_places: int = 0) -> Any:
        if not isinstance(value, Decimal):
            if decimal_places:
                raise NeedsSpark(f"the model does not round {value!r} at a place; run this on Spark.")
            if not math.isfinite(value):
                return 0 if math.isnan(value) else LONG_MAX if value > 0 else LONG_MIN
            return max(LONG_MIN, min(LONG_MAX, round_number(value)))  # clamped to a BIGINT, as in Java
        with localcontext(prec=_DIGITS):
            integral_value = value.scaleb(decimal_places).to_integral_value(rounding_mode).scaleb(-decimal_places)
            rounded = integral_value.quantize(Decimal(1).scaleb(-max(decimal_places, 0)))
        return rounded if rounded else abs(rounded)

    return run


def _sign_of_number(value: Any) -> float:
    if isinstance(value, float) and (value == 0 or math.isnan(value)):
        return value
    return float((value > 0) - (value < 0))


def _raise_to_power(base: float, exponent: float) -> float:
    if math.isnan(exponent) or (math.isinf(exponent) and abs(base) == 1):
        return math.nan  # Python gives 1
    try:
        return math.pow(base, exponent)
    except ValueError:
        if base != 0:
            return math.nan
        is_odd = float(exponent).is_integer() and exponent % 2 == 1
        return math.copysign(math.inf, base) if is_odd else math.inf
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def _natural_logarithm(value: Any) -> float | None:
    if isinstance(value, float) and math.isnan(value):
        return value
    return math.log(value) if value > 0 else None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sign": _sign_of_number,
    "ln": _natural_logarithm,
    "asin": _double_function(math.asin),
    "acos": _double_function(math.acos),
    "atan2": lambda a, b: math.atan2(a + 0.0, b + 0.0),  # as in Spark, which turns -0.0 into 0.0
    "cot": _double_function(lambda value: 1 / math.tan(value) if value else math.copysign(math.inf, value)),
    "power": _raise_to_power,
    "sqrt": _double_function(math.sqrt),
    "exp": _double_function(math.exp),
    "cbrt": _double_function(math.cbrt),
    "sin": _double_function(math.sin),
    "cos": _double_function(math.cos),
    "tan": _double_function(math.tan),
    "atan": _double_function(math.atan),
    "sinh": _double_function(math.sinh),
    "cosh": _double_function(math.cosh),
    "tanh": _double_function(math.tanh),
    "degrees": _double_function(math.degrees),
    "radians": _double_function(math.radians),
    "floor": _rounding_function(math.floor, ROUND_FLOOR),
    "ceil": _rounding_function(math.ceil, ROUND_CEILING),
}
