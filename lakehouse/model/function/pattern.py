"""LIKE over Python values, for the model."""

from __future__ import annotations

import re

from lakehouse.errors import NeedsSpark


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """Return text LIKE pattern: % is any text, _ any character, a sign of escape takes their meaning from them."""
    parts, rest = [], iter(pattern)
    for character in rest:
        if character == escape:
            following = next(rest, None)
            if following not in ("%", "_", escape):
                raise NeedsSpark(f"the pattern {pattern!r} is refused by Spark; run this there.")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None
