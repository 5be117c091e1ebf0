"""Spark SQL's scalar functions over Python values, for the model. No argument is null here: see `evaluate`.

A Python value does not fully determine its Spark type (INT or BIGINT, which DECIMAL). Where the type matters, these
functions raise `NeedsSpark` instead of guessing: the model is an oracle, or silent.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from struct import pack, unpack
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.moment_casts import to_date, to_timestamp
from lakehouse.semantics.blanks import JAVA_BLANKS, SPARK_BLANKS
from lakehouse.semantics.epoch_time import EPOCH
from lakehouse.semantics.java_double import java_double
from lakehouse.semantics.number_text import DIGITS_MAX, NUMBER

_NUMBER = (int, float, Decimal)
_INTEGER_TEXT = re.compile(r"(?P<sign>[+-]?)(?=[.0-9])(?P<whole>[0-9]*)(?:\.[0-9]*)?")
_INT, _BIGINT = 32, 64
_EXACT = 34  # digits of a DECIMAL that Spark negates without rounding it


def to_string(value: Any) -> str:
    """Return CAST(... AS STRING); NeedsSpark for values that Java writes in its own way."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Decimal):
        return str(value)  # the exponent appears where Java writes one
    raise NeedsSpark(f"the model can't write {value!r} as Spark does; run this on Spark.")


def _to_integer(bits: int) -> Callable[[Any], int | None]:
    """Return a cast to an integer of so many bits, which cuts off the fraction; null for NaN and what does not fit."""

    def cast(value: Any) -> int | None:
        limit = 1 << (bits - 1)
        whole_number = _to_whole_number(value)
        return whole_number if whole_number is not None and -limit <= whole_number < limit else None

    return cast


def _to_whole_number(value: Any) -> int | None:
    match value:
        case str():
            match = _INTEGER_TEXT.fullmatch(value.strip(SPARK_BLANKS))
            whole_digits = (match["whole"].lstrip("0") or "0") if match else ""
            return int(match["sign"] + whole_digits) if match and len(whole_digits) < DIGITS_MAX else None
        case int() | Decimal():
            return int(value)
        case float():
            return int(value) if math.isfinite(value) else None
        case datetime():
            return (value - EPOCH) // timedelta(seconds=1)
    raise NeedsSpark(f"the model does not cast {value!r} to an integer; run this on Spark.")


def _to_float(value: Any) -> float | None:
    number = _to_double(value)
    if number is None:
        return None
    try:
        return float(unpack("<f", pack("<f", number))[0])
    except OverflowError:  # a FLOAT is infinite where a value is too large
        return math.copysign(math.inf, number)


def _to_double(value: Any) -> float | None:
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1) / 1_000_000
    trimmed_text = str(value).strip(JAVA_BLANKS)
    bare = (
        trimmed_text[:-1] if trimmed_text[-1:] in ("d", "D", "f", "F") else trimmed_text
    )  # Java's suffixes for a number's type
    if NUMBER.fullmatch(bare):
        return float(bare)
    if re.fullmatch("[+-]?(inf|infinity)|nan", trimmed_text.lower()) or trimmed_text in ("+NaN", "-NaN"):
        return float(trimmed_text)
    if re.match("[+-]?0x", trimmed_text.lower()):
        raise NeedsSpark(f"the model does not cast {value!r} to a double; run this on Spark.")
    return None


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise NeedsSpark(f"the model does not cast {value!r} to a boolean; run this on Spark.")


CASTS: dict[str, Callable[[Any], Any]] = {
    "date": to_date, "timestamp": to_timestamp, "boolean": _to_boolean,
    "string": to_string, "double": _to_double, "float": _to_float,
    "tinyint": _to_integer(8), "smallint": _to_integer(16), "int": _to_integer(_INT), "bigint": _to_integer(_BIGINT),
}  # fmt: skip


def _try_to_integer(bits: int) -> Callable[[Any], int | None]:
    """Return a TRY_CAST to an integer: null for a number that does not fit, which CAST would cut off."""
    plain_cast, limit = _to_integer(bits), 1 << (bits - 1)

    def try_cast(value: Any) -> int | None:
        if isinstance(value, str):
            # Unlike CAST, TRY_CAST rejects a fraction.
            return plain_cast(value) if "." not in value else None
        if isinstance(value, float):
            whole_number = int(value) if math.isfinite(value) else 2 * limit
            # The greatest BIGINT is no double: Spark compares with the next one.
            is_fit = -limit <= whole_number < limit + (bits == _BIGINT)
            return min(whole_number, limit - 1) if is_fit else None
        if isinstance(value, int):
            return int(value) if -limit <= value < limit else None
        return plain_cast(value)

    return try_cast


TRY_CASTS: dict[str, Callable[[Any], Any]] = {
    "string": lambda value: f"{value:f}" if isinstance(value, Decimal) else to_string(value),
    "tinyint": _try_to_integer(8),
    "smallint": _try_to_integer(16),
    "int": _try_to_integer(_INT),
    "bigint": _try_to_integer(_BIGINT),
}


def cast_to_other_type(target_type: str) -> Callable[[Any], Any]:
    """Return a cast to a type without an entry in `CASTS`: of bytes, of empty arrays and maps, of arrays by element."""

    def cast(value: Any) -> Any:
        if value in ([], {}) or (isinstance(value, bytes) and target_type == "binary"):
            return value
        if target_type == "binary" and isinstance(value, str):
            return value.encode()
        if target_type.startswith("array<") and isinstance(value, list):
            element_type = target_type.removeprefix("array<").removesuffix(">")
            element_cast = CASTS.get(element_type) or cast_to_other_type(element_type)
            return [None if item is None else element_cast(item) for item in value]
        raise NeedsSpark(f"the model does not cast {value!r:.60} to {target_type}; run this on Spark.")

    return cast


def _comparable_pair(left_value: Any, right_value: Any) -> tuple[Any, Any]:
    if isinstance(left_value, bool) == isinstance(right_value, bool):
        if isinstance(left_value, _NUMBER) and isinstance(right_value, _NUMBER):
            # Compared with a double, everything is a double in Spark: DECIMAL 0.1 = DOUBLE 0.1, but not in Python.
            return (
                (_double_sort_key(left_value), _double_sort_key(right_value))
                if isinstance(left_value, float) or isinstance(right_value, float)
                else (left_value, right_value)
            )
        if type(left_value) is type(right_value):
            return (
                (_with_lower_names(left_value), _with_lower_names(right_value))
                if isinstance(left_value, list | dict)
                else (left_value, right_value)
            )
        if isinstance(left_value, date) and isinstance(right_value, date):  # a datetime is a date, too
            return to_timestamp(left_value), to_timestamp(right_value)
    raise NeedsSpark(
        f"the model does not compare {left_value!r} with {right_value!r}: Spark would cast one of them. "
        "Cast it, or use Spark."
    )


def _with_lower_names(value: Any) -> Any:
    """Return structs, also in lists, with names that can be compared: Spark ignores their case."""
    if isinstance(value, dict):
        return {name.lower(): _with_lower_names(field_value) for name, field_value in value.items()}
    return [_with_lower_names(item) for item in value] if isinstance(value, list) else value


def _double_sort_key(value: Any) -> tuple[bool, float]:
    """Return a sort key for doubles: NaN is the largest, and equals itself."""
    number = float(value)
    return math.isnan(number), 0.0 if math.isnan(number) else number


def condition_value(value: Any) -> bool | None:
    """Return the value of a condition; NeedsSpark for another one, which Spark refuses."""
    if value is None or isinstance(value, bool):
        return value
    raise NeedsSpark(f"{value!r:.60} is no condition, and Spark refuses it. Compare it with another value.")


def strict_comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison that accepts only values that Spark compares without conversion."""
    return lambda a, b: compare(*_comparable_pair(a, b))


def is_equal(left_value: Any, right_value: Any) -> bool | None:
    """Return left = right, where the left value may be null."""
    return None if left_value is None else operator.eq(*_comparable_pair(left_value, right_value))


def is_in(value: Any, options: Sequence[Any]) -> bool | None:
    """Return value IN (options): null if the value is null, or if it equals no option and one of them is null."""
    results = {None if option is None else is_equal(value, option) for option in options}
    return True if True in results else None if None in results else False


def arithmetic_operator(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return +, - or * over integers and doubles; integers wrap around as in Java."""

    def run(left_value: Any, right_value: Any) -> Any:
        operand_types = {type(left_value), type(right_value)}
        if operand_types == {int}:
            return wrap_result(left_value, right_value, operation(left_value, right_value))
        if operand_types <= {int, float, Decimal} and float in operand_types:
            return operation(float(left_value), float(right_value))
        raise NeedsSpark(f"the model has no arithmetic over {left_value!r} and {right_value!r}; run this on Spark.")

    return run


def wrap_result(left_value: int, right_value: int, result: int) -> int:
    """Return Java's result for two integers; NeedsSpark where it depends on their types."""

    def fits_in(value: int, bits: int) -> bool:
        return -(1 << (bits - 1)) <= value < 1 << (bits - 1)

    if fits_in(left_value, _INT) and fits_in(right_value, _INT) and not fits_in(result, _INT):
        raise NeedsSpark(
            f"the model can't tell whether {left_value} and {right_value} are INT, and so wrap around, "
            "or BIGINT; use Spark."
        )
    return wrap_around(result)


def wrap_around(value: int, bits: int = _BIGINT) -> int:
    """Return a whole number, wrapped around to a BIGINT or to so many bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def negate_number(value: Any) -> Any:
    """Return -value; NeedsSpark for the smallest INT and BIGINT, which have no such number."""
    if isinstance(value, int) and value in (-(1 << 31), -(1 << 63)):
        raise NeedsSpark(f"the model can't tell whether {value} is INT, and so has no negative, or BIGINT; use Spark.")
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > _EXACT:
        raise NeedsSpark(f"Spark rounds {value}, of more than {_EXACT} digits, here; run this on Spark.")
    return value.copy_negate() if isinstance(value, Decimal) and value else -value


def divide(dividend: Any, divisor: Any) -> float | None:
    """Return dividend / divisor as a double; null for a division by zero."""
    if isinstance(dividend, Decimal) or isinstance(divisor, Decimal):
        raise NeedsSpark("the model does not divide decimals; cast them to double, or run this on Spark.")
    return None if divisor == 0 else float(dividend) / float(divisor)


def whole_division(dividend: Any, divisor: Any) -> int | None:
    """Return dividend div divisor, rounded towards zero as in Java; null for a division by zero."""
    if not (isinstance(dividend, int) and isinstance(divisor, int)):
        raise NeedsSpark("the model's div is for integers; run this on Spark.")
    return (
        None
        if divisor == 0
        else wrap_around(abs(dividend) // abs(divisor) * (-1 if (dividend < 0) != (divisor < 0) else 1))
    )


def value_at_key(entries: Mapping[Any, Any], key: Any) -> Any:
    """Return a map's value; NeedsSpark for a key of another type than the map's, which Spark casts."""
    if type(key) is not type(next(iter(entries), key)):
        raise NeedsSpark(f"the model does not look {key!r} up among keys of another type; run this on Spark.")
    return entries.get(key)


def element_at(collection: Any, key: Any) -> Any:
    """Return collection[key]: an element, counted from 0, or the value of a map's key; null if there is none."""
    if isinstance(collection, dict):
        return value_at_key(collection, key)
    return collection[key] if 0 <= key < len(collection) else None


def java_modulo(dividend: Any, divisor: Any) -> int | float | None:
    """Return dividend % divisor with the dividend's sign, as in Java; null for a division by zero."""
    if {type(dividend), type(divisor)} <= {int, float} and float in (type(dividend), type(divisor)):
        if divisor == 0:
            return None
        return math.nan if math.isinf(dividend) or math.isnan(dividend) else math.fmod(dividend, divisor)
    if not (isinstance(dividend, int) and isinstance(divisor, int)):
        raise NeedsSpark("the model's % is for integers and doubles; run this on Spark.")
    return whole_rest(dividend, divisor)


def whole_rest(a: int, b: int) -> int | None:
    """Return a % b of whole numbers."""
    return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


def substring_of_text(text: str, start: int, length: int = (1 << 31) - 1) -> str:
    """Return Spark's SUBSTRING: positions count from 1, negative ones from the end; it skips those before the text.

    substring('abc', -5, 3) is 'a': it starts two positions before the text, so one of the three is left.
    Without a length it is the largest INT, which from the smallest start does not reach the last character.
    """
    first_index = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first_index, 0) : max(first_index + length, 0)]
