"""Spark SQL's scalar functions over Python values, for the model. No argument is null here: see `evaluate`.

A Python value does not fully determine its Spark type (INT or BIGINT, which DECIMAL), so if the type would
matter, these raise `NeedsSpark` instead of guessing: the model is an oracle, or silent.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from struct import pack, unpack
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.moment_casts import to_date, to_timestamp
from lakehouse.semantics.java_double import java_double
from lakehouse.semantics.moment import EPOCH
from lakehouse.semantics.number_text import DIGITS_MAX, NUMBER

_NUMBER = (int, float, Decimal)
_INTEGER_TEXT = re.compile(r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.[0-9]*)?")
BLANKS = "".join(map(chr, range(33)))  # the characters that Spark trims from a text before a cast
_INT, _BIGINT = 32, 64
_EXACT = 34  # digits of a DECIMAL that Spark negates without rounding it


def to_string(value: Any) -> str:
    """CAST(... AS STRING); NeedsSpark for values that Java writes in its own way."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Decimal):
        return str(value)  # with an exponent where Java has one
    raise NeedsSpark(f"the model can't write {value!r} as Spark does; run this on Spark.")


def _to_integer(bits: int) -> Callable[[Any], int | None]:
    """A cast to an integer of so many bits: the fraction is cut off; null for what does not fit, and for NaN."""

    def cast(value: Any) -> int | None:
        limit = 1 << (bits - 1)
        whole = _whole(value)
        return whole if whole is not None and -limit <= whole < limit else None

    return cast


def _whole(value: Any) -> int | None:
    match value:
        case str():
            found = _INTEGER_TEXT.fullmatch(value.strip(BLANKS))
            digits = (found["whole"].lstrip("0") or "0") if found else ""
            return int(found["sign"] + digits) if found and len(digits) < DIGITS_MAX else None
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
    except OverflowError:  # a FLOAT has infinities for what is too large
        return math.copysign(math.inf, number)


def _to_double(value: Any) -> float | None:
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1) / 1_000_000
    text = str(value).strip(BLANKS)
    bare = text[:-1] if text[-1:] in ("d", "D", "f", "F") else text  # Java's own letters of a number's type
    if NUMBER.fullmatch(bare):
        return float(bare)
    if re.fullmatch("[+-]?(inf|infinity)|nan", text.lower()) or text in ("+NaN", "-NaN"):
        return float(text)
    if re.match("[+-]?0x", text.lower()):
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


def _tried(bits: int) -> Callable[[Any], int | None]:
    """TRY_CAST to an integer: null for a number that does not fit, where CAST cuts it off."""
    cast, limit = _to_integer(bits), 1 << (bits - 1)

    def tried(value: Any) -> int | None:
        if isinstance(value, str):
            # Unlike CAST it takes no fraction.
            return cast(value) if "." not in value else None
        if isinstance(value, float):
            whole = math.floor(value) if math.isfinite(value) else limit
            return int(value) if -limit <= whole < limit else None
        if isinstance(value, int):
            return int(value) if -limit <= value < limit else None
        return cast(value)

    return tried


TRIED: dict[str, Callable[[Any], Any]] = {
    "string": lambda value: f"{value:f}" if isinstance(value, Decimal) else to_string(value),
    "tinyint": _tried(8), "smallint": _tried(16), "int": _tried(_INT), "bigint": _tried(_BIGINT),
}  # fmt: skip


def other_cast(kind: str) -> Callable[[Any], Any]:
    """Return a cast to a type that the model has no cast to; it knows those of empty arrays and maps, and of bytes."""

    def cast(value: Any) -> Any:
        if value in ([], {}) or (isinstance(value, bytes) and kind == "binary"):
            return value
        if kind == "binary" and isinstance(value, str):
            return value.encode()
        if kind.startswith("array<") and isinstance(value, list):
            inner = kind.removeprefix("array<").removesuffix(">")
            work = CASTS.get(inner) or other_cast(inner)
            return [None if item is None else work(item) for item in value]
        raise NeedsSpark(f"the model does not cast {value!r:.60} to {kind}; run this on Spark.")

    return cast


def _comparable(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, bool) == isinstance(b, bool):
        if isinstance(a, _NUMBER) and isinstance(b, _NUMBER):
            # Compared with a double, everything is a double in Spark: DECIMAL 0.1 = DOUBLE 0.1, but not in Python.
            return (_double(a), _double(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)
        if type(a) is type(b):
            return a, b
        if isinstance(a, date) and isinstance(b, date):  # a datetime is one, too
            return to_timestamp(a), to_timestamp(b)
    raise NeedsSpark(
        f"the model does not compare {a!r} with {b!r}: Spark would cast one of them. Cast it, or use Spark."
    )


def _double(value: Any) -> tuple[bool, float]:
    """A number as doubles are compared: NaN is the largest, and equal to itself."""
    number = float(value)
    return math.isnan(number), 0.0 if math.isnan(number) else number


def comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison that accepts only values that Spark compares without conversion."""
    return lambda a, b: compare(*_comparable(a, b))


def equal(a: Any, b: Any) -> bool | None:
    """Return a = b, where a may be null on the left."""
    return None if a is None else operator.eq(*_comparable(a, b))


def among(of: Any, others: Sequence[Any]) -> bool | None:
    """Return of IN (others): null if it is null, or equal to none of them and one is null."""
    found = {None if other is None else equal(of, other) for other in others}
    return True if True in found else None if None in found else False


def arithmetic(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return +, - or * over integers and doubles, wrapping around as in Java."""

    def run(a: Any, b: Any) -> Any:
        kinds = {type(a), type(b)}
        if kinds == {int}:
            return wrapped(a, b, work(a, b))
        if kinds <= {int, float, Decimal} and float in kinds:
            return work(float(a), float(b))
        raise NeedsSpark(f"the model has no arithmetic over {a!r} and {b!r}; run this on Spark.")

    return run


def wrapped(a: int, b: int, result: int) -> int:
    """Return the result of two integers as Java has it; NeedsSpark where it depends on their types."""

    def fits(value: int, bits: int) -> bool:
        return -(1 << (bits - 1)) <= value < 1 << (bits - 1)

    if fits(a, _INT) and fits(b, _INT) and not fits(result, _INT):
        raise NeedsSpark(f"the model can't tell whether {a} and {b} are INT, and so wrap around, or BIGINT; use Spark.")
    return as_long(result)


def as_long(value: int, bits: int = _BIGINT) -> int:
    """Return a whole number as a BIGINT, or as one of so many bits, which wraps around."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def negated(value: Any) -> Any:
    """Return -value; the smallest INT and the smallest BIGINT have no such number."""
    if isinstance(value, int) and value in (-(1 << 31), -(1 << 63)):
        raise NeedsSpark(f"the model can't tell whether {value} is INT, and so has no negative, or BIGINT; use Spark.")
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > _EXACT:
        raise NeedsSpark(f"Spark rounds {value}, of more than {_EXACT} digits, here; run this on Spark.")
    return value.copy_negate() if isinstance(value, Decimal) and value else -value


def divide(a: Any, b: Any) -> float | None:
    """Return a / b as a double, and null for a division by zero."""
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        raise NeedsSpark("the model does not divide decimals; cast them to double, or run this on Spark.")
    return None if b == 0 else float(a) / float(b)


def whole_division(a: Any, b: Any) -> int | None:
    """Return a div b, cut off towards zero as in Java, and null for a division by zero."""
    if not (isinstance(a, int) and isinstance(b, int)):
        raise NeedsSpark("the model's div is for integers; run this on Spark.")
    return None if b == 0 else as_long(abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1))


def at_place(of: Any, key: Any) -> Any:
    """Return of[key]: an element, counted from 0, or the value of a map's key; null where there is none."""
    if isinstance(of, dict):
        return of.get(key)
    return of[key] if 0 <= key < len(of) else None


def modulo(a: Any, b: Any) -> int | float | None:
    """Return a % b with the sign of a, as in Java, and null for a division by zero."""
    if {type(a), type(b)} <= {int, float} and float in (type(a), type(b)):
        if b == 0:
            return None
        return math.nan if math.isinf(a) or math.isnan(a) else math.fmod(a, b)
    if not (isinstance(a, int) and isinstance(b, int)):
        raise NeedsSpark("the model's % is for integers and doubles; run this on Spark.")
    return whole_rest(a, b)


def whole_rest(a: int, b: int) -> int | None:
    """Return a % b of whole numbers."""
    return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return Spark's SUBSTRING: counted from 1, a negative start from the end; positions before the text are cut off.

    substring('abc', -5, 3) is 'a': five from the end is two places before the text, so one of the three is left.
    """
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else first + length
    return text[max(first, 0) : max(end, 0)]
