"""Java's functions of texts, for the model: a character beyond the basic plane counts as two, half of it is a ?."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.semantics.surrogates import replace_surrogates

# What Java writes behind a backslash: a code unit, a code in octal digits, a control character. Any other character
# stands for itself.
_ESCAPE = re.compile(r"\\(?:u+\+?(.{0,4})|([0-3][0-7]{0,2}|[0-7]{1,2})|(.?))", re.DOTALL)
_CONTROLS = {"b": "\b", "n": "\n", "t": "\t", "f": "\f", "r": "\r"}


def _to_java_units(text: str) -> str:
    """Return a text with a character for each of Java's characters."""
    encoded_text = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(encoded_text[index] << 8 | encoded_text[index + 1]) for index in range(0, len(encoded_text), 2))


def _from_java_units(units: str) -> str:
    """Return the text that Java's characters make."""
    return replace_surrogates(units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass"))


def _substring_of_units(text: str, begin: int, end: int) -> str | None:
    units = _to_java_units(text)
    return _from_java_units(units[begin:end]) if 0 <= begin <= end <= len(units) else None


def _find_occurrence(text: str, part: str, start: int, occurrence: int) -> int:
    """Return the position of a part's n-th occurrence, searching from `start`; -1 if there is none."""
    units, part = _to_java_units(text), _to_java_units(part)
    searched_units = units[max(start, 0) :] if start >= 0 else units[max(len(units) + start, 0) :]
    if occurrence <= 0:
        return -1
    if not part:
        return 0
    index = -1
    for _ in range(occurrence):
        index = searched_units.find(part, index + 1)
        if index < 0:
            return -1
    return index


def _unescape(text: str) -> str | None:
    """Return a text with Java's escapes replaced by their characters; null for a unit that is not four digits."""
    parts, next_index = [], 0
    for escape in _ESCAPE.finditer(text):
        unit, octal, other = escape.groups()
        parts.append(text[next_index : escape.start()])
        next_index = escape.end()
        if unit is None:
            parts.append(chr(int(octal, 8)) if octal else _CONTROLS.get(other, other))
        elif re.fullmatch("[0-9A-Fa-f]{4}", unit):
            parts.append(chr(int(unit, 16)))
        elif unit.isascii() and unit[:1] not in ("+", "-"):
            return None
        else:
            raise NeedsSpark(f"the model does not read {unit!r} as hexadecimal digits; run this on Spark.")
    return _from_java_units("".join([*parts, text[next_index:]]))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ksql_length": lambda text: len(_to_java_units(text)),
    "ksql_substring": _substring_of_units,
    "ksql_find": _find_occurrence,
    "ksql_unescape": _unescape,
    "ksql_reverse": lambda text: text[::-1],
}
