"""Calls of every function that an expression may use, casts between all types, and SQL's functions by their records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
# What {number} and the like stand for in `python_calls.txt`: one of these columns.
KINDS = {
    "number": "i l h y f d p q u",
    "few numbers": "i l d p",
    "array": "xs ds ts xss ws",
    "any": "i l d p s raw day at flag xs m w",
    "simple": "i l d p s raw day at flag",
    "no bytes": "i l d p s day at flag",
    "ordered": "i l d p s raw day at flag xs w",
}  # fmt: skip


def calls() -> list[str]:
    """Return the calls of Python's expressions, one for each choice of columns."""
    lines = (HERE / "python_calls.txt").read_text("utf-8").splitlines()
    return list(dict.fromkeys(call for line in lines for call in _expanded(line)))


def casts() -> list[str]:
    """Return the casts, and the tried ones, of every type to every type that Spark takes."""
    return (HERE / "casts.txt").read_text("utf-8").splitlines()


def _expanded(line: str) -> Iterator[str]:
    words = re.findall(r"\{([a-z ]+)\}", line)
    columns = [KINDS[word].split() for word in words]
    # Arguments of any type have one type.
    chosen = zip(*columns, strict=True) if set(words) == {"ordered"} else product(*columns)
    for names in chosen:
        of = iter(names)
        yield re.sub(r"\{[a-z ]+\}", lambda _, of=of: next(of), line)  # type: ignore[misc]
