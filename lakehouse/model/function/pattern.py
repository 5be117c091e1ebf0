"""LIKE over Python values, for the model."""

from __future__ import annotations

import re

from lakehouse.errors import NeedsSpark


def matches_like(text: str, pattern: str, escape: str = "\\") -> bool:
    """Return text LIKE pattern: % is any text, _ any character; after the escape character they are literal."""
    regex_parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following not in ("%", "_", escape):
                raise NeedsSpark(f"the pattern {pattern!r} is refused by Spark; run this there.")
            regex_parts.append(re.escape(following))
        else:
            regex_parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.fullmatch("".join(regex_parts), text, re.DOTALL) is not None
