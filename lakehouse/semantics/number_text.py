"""Numbers in texts: checked by their length and their exponent before anything computes with them.

1e999999999 as an integer would take a gigabyte of digits, and the job would hang at its record for ever. The limits
here refuse nothing that fits a type: a number of at most 1000 digits with an exponent beyond 9999 is larger than any
decimal, infinite as a double, or rounds to zero.
"""

from __future__ import annotations

import re
from decimal import Decimal

LENGTH_MAX = 1000  # digits; the same limit as in Jackson, Spark's JSON parser
EXPONENT_MAX = 9999
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LARGE_EXPONENT = re.compile(r"([eE][+-]?)0*[1-9][0-9]{4,}$")
DIGITS_MAX = 50  # more than any type of numbers has


def count_digits(number_text: str) -> int:
    """Return how many digits a number has, including its exponent, without a zero before the point."""
    return sum(map(str.isdigit, number_text)) - number_text.lstrip("+-").startswith("0")


def exact_decimal(number_text: str) -> Decimal:
    """Return a number's text, a `NUMBER` of at most `LENGTH_MAX` digits, as a decimal.

    Too large an exponent is replaced by a smaller one that is still beyond all types.
    """
    return Decimal(_LARGE_EXPONENT.sub(rf"\g<1>{EXPONENT_MAX}", number_text))


def whole_part(value: Decimal) -> int | None:
    """Return a number without its fraction; None if it has more digits than any integer type."""
    return int(value) if value.is_zero() or value.adjusted() < DIGITS_MAX else None
