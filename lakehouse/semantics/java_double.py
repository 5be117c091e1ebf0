"""Doubles as text in Java's form: 1.0, 1.5E10, NaN."""

from __future__ import annotations

from decimal import Decimal


def java_double(value: float) -> str:
    """Return a double as Java's Double.toString writes it, which is how Spark puts a JSON number in a string column."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    python_text = float.__repr__(value)
    # Java writes at least two digits: the nearest two-digit number that parses to this double, such as 4.9E-324.
    if "." not in python_text and float(short_text := f"{value:.1e}") == value:
        python_text = short_text
    sign, digits, exponent = Decimal(python_text).normalize().as_tuple()
    sign_text = "-" if sign else ""
    if not any(digits):
        return f"{sign_text}0.0"
    digit_text = "".join(map(str, digits))
    point_place = len(digit_text) + int(exponent)  # the number is 0.<text> * 10**point
    if -2 <= point_place <= 7:
        whole_digits = digit_text[:point_place].ljust(point_place, "0") if point_place > 0 else "0"
        fraction_digits = digit_text[point_place:] if point_place > 0 else "0" * -point_place + digit_text
        return f"{sign_text}{whole_digits}.{fraction_digits or '0'}"
    return f"{sign_text}{digit_text[0]}.{digit_text[1:] or '0'}E{point_place - 1}"
