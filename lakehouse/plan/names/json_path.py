"""Paths into JSON: names after dots, places and names in brackets; names with other characters are quoted.

    $.user.name    $.items[0]    $["user-id"]    $['user-id']

ksqlDB uses double quotes, with a backslash before a quote or a backslash in them; Spark uses single quotes.
"""

from __future__ import annotations

import re
from functools import lru_cache

_STEP = re.compile(
    r"""\.([^.\[\]"\s]+) | \[([^.\[\]"'\s]+)\] | \["((?:[^"\\]|\\["\\])*)"\] | \['([^']*)'\]""", re.VERBOSE
)


@lru_cache(maxsize=1024)
def json_pointer(path: str) -> str | None:
    """Return a path as a JSON pointer (RFC 6901), such as /items/0; None for a text that is no path."""
    if not path.startswith("$"):
        return None
    pointer_text, next_index = "", 1
    while next_index < len(path):
        if (step := _STEP.match(path, next_index)) is None:
            return None
        name = next(part for part in step.groups() if part is not None)
        if step[3] is not None:
            name = re.sub(r"\\(.)", r"\1", name)
        pointer_text += "/" + name.replace("~", "~0").replace("/", "~1")
        next_index = step.end()
    return pointer_text
