"""Java's functions of texts, for the model: a character beyond the basic plane is two there, half of one is a ?."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _units(text: str) -> str:
    """A text with a character for each one of Java."""
    data = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(data[place] << 8 | data[place + 1]) for place in range(0, len(data), 2))


def _whole(units: str) -> str:
    """The text of Java's characters."""
    joined = units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return "".join("?" if 0xD800 <= ord(character) <= 0xDFFF else character for character in joined)


def _substring(text: str, begin: int, end: int) -> str | None:
    units = _units(text)
    return _whole(units[begin:end]) if 0 <= begin <= end <= len(units) else None


def _find(text: str, part: str, start: int, number: int) -> int:
    """The place, from `start`, where a part begins for the so manieth time; -1 if it does not."""
    units, part = _units(text), _units(part)
    rest = units[max(start, 0) :] if start >= 0 else units[max(len(units) + start, 0) :]
    if number <= 0:
        return -1
    if not part:
        return 0
    place = -1
    for _ in range(number):
        place = rest.find(part, place + 1)
        if place < 0:
            return -1
    return place


STRICT: dict[str, Callable[..., Any]] = {
    "ksql_length": lambda text: len(_units(text)),
    "ksql_substring": _substring,
    "ksql_find": _find,
    "ksql_reverse": lambda text: text[::-1],
}
