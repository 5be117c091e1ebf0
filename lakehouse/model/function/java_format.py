"""Formats of Java's DateTimeFormatter: their parts, and patterns for what they read. The common letters alone."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from lakehouse.errors import NeedsSpark

_PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
MONTHS = [date(2000, month, 1).strftime("%B").lower() for month in range(1, 13)]
_OFFSET = r"[+-]\d\d"
_READ = {
    "yyyy": r"(?P<Y>\d{4})", "yy": r"(?P<y>\d\d)", "MM": r"(?P<m>\d\d)", "M": r"(?P<m>\d\d?)", "dd": r"(?P<d>\d\d)",
    "d": r"(?P<d>\d\d?)", "HH": r"(?P<H>\d\d)", "H": r"(?P<H>\d\d?)", "hh": r"(?P<I>\d\d)", "h": r"(?P<I>\d\d?)",
    "mm": r"(?P<M>\d\d)", "ss": r"(?P<S>\d\d)", "a": "(?P<p>AM|PM)",
    "MMM": f"(?P<b>{'|'.join(name[:3] for name in MONTHS)})", "MMMM": f"(?P<b>{'|'.join(MONTHS)})",
    "X": rf"(?P<z>Z|{_OFFSET}(?:\d\d)?)", "XX": rf"(?P<z>Z|{_OFFSET}\d\d)", 3 * "X": rf"(?P<z>Z|{_OFFSET}:\d\d)",
    "x": rf"(?P<z>{_OFFSET}(?:\d\d)?)", "xx": rf"(?P<z>{_OFFSET}\d\d)", "xxx": rf"(?P<z>{_OFFSET}:\d\d)",
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), rf"(?P<z>{_OFFSET}\d\d)"),
    **dict.fromkeys(("z", "zz", "zzz"), r"(?P<N>\S+)"),
}  # fmt: skip


def format_parts(format: str) -> list[tuple[str, str]]:
    """Return the parts of a format: ("letters", "yyyy") or ("text", "-")."""
    found, place = [], 0
    while place < len(format):
        part = _PARTS.match(format, place)
        if part is None:
            raise NeedsSpark(f"the model does not read the format {format!r}; run this on Spark.")
        text = part[0]
        if part[2]:
            found.append(("letters", text))
        else:
            found.append(("text", (part[1] or "'").replace("''", "'") if text.startswith("'") else text))
        place = part.end()
    if any(kind == "text" and part in "[]{}#" for kind, part in found):
        raise NeedsSpark(f"the model does not read the format {format!r}; run this on Spark.")
    return found


@lru_cache(maxsize=256)
def format_reader(format: str) -> re.Pattern[str]:
    """Return a pattern for the texts of a format, with a group for each part: Y, m, d, H, M, S, f, z, N and others."""
    made = ""
    for kind, part in format_parts(format):
        if kind == "text":
            made += re.escape(part)
        elif set(part) == {"S"} and len(part) <= 6:
            made += rf"(?P<f>\d{{{len(part)}}})"
        elif part in _READ:
            made += _READ[part]
        else:
            raise NeedsSpark(f"the model does not read {part!r} of the format {format!r}; run this on Spark.")
    try:
        return re.compile(made, re.ASCII | re.IGNORECASE)  # as in Spark
    except re.error as error:
        raise NeedsSpark(f"the model does not read the format {format!r}; run this on Spark.") from error
