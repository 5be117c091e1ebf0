"""Formats of Java's DateTimeFormatter, the common letters only: their parts, and patterns for matching texts."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from lakehouse.errors import NeedsSpark

_PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
MONTHS = [date(2000, month, 1).strftime("%B").lower() for month in range(1, 13)]
_OFFSET = r"[+-]\d\d"
_DIGITS = r"\d{1,19}"  # a letter alone stands for any number of digits, leading zeros too
_PATTERNS_BY_LETTERS = {
    "yyyy": r"(?P<Y>\d{4})", "yy": r"(?P<y>\d\d)", "MM": r"(?P<m>\d\d)", "M": rf"(?P<m>{_DIGITS})",
    "dd": r"(?P<d>\d\d)", "d": rf"(?P<d>{_DIGITS})", "HH": r"(?P<H>\d\d)", "H": rf"(?P<H>{_DIGITS})",
    "hh": r"(?P<I>\d\d)", "h": rf"(?P<I>{_DIGITS})", "mm": r"(?P<M>\d\d)", "ss": r"(?P<S>\d\d)", "a": "(?P<p>AM|PM)",
    "MMM": f"(?P<b>{'|'.join(name[:3] for name in MONTHS)})", "MMMM": f"(?P<b>{'|'.join(MONTHS)})",
    "X": rf"(?P<z>Z|{_OFFSET}(?:\d\d)?)", "XX": rf"(?P<z>Z|{_OFFSET}\d\d)", 3 * "X": rf"(?P<z>Z|{_OFFSET}:\d\d)",
    "x": rf"(?P<z>{_OFFSET}(?:\d\d)?)", "xx": rf"(?P<z>{_OFFSET}\d\d)", "xxx": rf"(?P<z>{_OFFSET}:\d\d)",
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), rf"(?P<z>{_OFFSET}\d\d)"),
    **dict.fromkeys(("z", "zz", "zzz"), r"(?P<N>\S+)"),
}  # fmt: skip


def format_parts(java_format: str) -> list[tuple[str, str]]:
    """Return the parts of a format: ("letters", "yyyy") or ("text", "-")."""
    parts, position = [], 0
    while position < len(java_format):
        part = _PARTS.match(java_format, position)
        if part is None:
            raise NeedsSpark(f"the model does not read the format {java_format!r}; run this on Spark.")
        part_text = part[0]
        if part[2]:
            parts.append(("letters", part_text))
        else:
            parts.append(("text", (part[1] or "'").replace("''", "'") if part_text.startswith("'") else part_text))
        position = part.end()
    if any(part_kind == "text" and part in "[]{}#" for part_kind, part in parts):
        raise NeedsSpark(f"the model does not read the format {java_format!r}; run this on Spark.")
    return parts


@lru_cache(maxsize=256)
def format_reader(java_format: str, least_fraction_digits: int | None = None) -> re.Pattern[str]:
    """Return a pattern for a format's texts, with a group for each part: Y, m, d, H, M, S, f, z, N and others.

    least_fraction_digits: None for as many as the format has letters. Spark's own functions take fewer.
    """
    pattern_text = ""
    _require_one_reading(java_format)
    for part_kind, part in format_parts(java_format):
        if part_kind == "text":
            pattern_text += re.escape(part)
        elif set(part) == {"S"} and len(part) <= 6:
            pattern_text += rf"(?P<f>(?>\d{{{least_fraction_digits or len(part)},{len(part)}}}))"
        elif part in _PATTERNS_BY_LETTERS:
            pattern_text += _PATTERNS_BY_LETTERS[part]
        else:
            raise NeedsSpark(f"the model does not read {part!r} of the format {java_format!r}; run this on Spark.")
    try:
        return re.compile(pattern_text, re.ASCII | re.IGNORECASE)  # as in Spark
    except re.error as error:
        raise NeedsSpark(f"the model does not read the format {java_format!r}; run this on Spark.") from error


def _require_one_reading(java_format: str) -> None:
    """Raise NeedsSpark for numbers of any length that follow each other at once, and for two years.

    Java takes too many digits for the first of such numbers.
    """
    has_variable = False
    parts = format_parts(java_format)
    if {("letters", "yyyy"), ("letters", "yy")} <= set(parts):
        raise NeedsSpark(f"the model does not compare two years: {java_format!r}. Use Spark.")
    for part_kind, part in parts:
        is_number = part_kind == "letters" and (part[0] in "ydHhmsS" or part in ("M", "MM"))
        is_variable = part in ("yyyy", "M", "d", "H", "h") or part.startswith("S")
        if is_number and is_variable and has_variable:
            raise NeedsSpark(
                f"the model does not read numbers of any length that follow each other: {java_format!r}. Use Spark."
            )
        has_variable = is_number and (has_variable or is_variable)
