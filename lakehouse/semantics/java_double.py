"""Doubles as texts, as Java writes them: 1.0, 1.5E10, NaN."""

from __future__ import annotations

from decimal import Decimal


def java_double(value: float) -> str:
    """Return a double as Java's Double.toString writes it, which is how Spark puts a JSON number in a string column."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    shown = repr(value)
    # Java writes two digits at least: of the numbers of two digits that are read as this one the nearest, 4.9E-324.
    if "." not in shown and float(nearest := f"{value:.1e}") == value:
        shown = nearest
    sign, digits, exponent = Decimal(shown).normalize().as_tuple()
    minus = "-" if sign else ""
    if not any(digits):
        return f"{minus}0.0"
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)  # the number is 0.<text> * 10**point
    if -2 <= point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        fraction = text[point:] if point > 0 else "0" * -point + text
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
