"""Half of a surrogate pair: an escape in JSON may give one, and no text in UTF-8 can have it."""

from __future__ import annotations

import re

SURROGATE = re.compile("[\ud800-\udfff]")
BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


def replace_surrogates(text: str) -> str:
    """Return text that UTF-8 can encode: half of a surrogate pair becomes "?" as in Java."""
    return SURROGATE.sub("?", text)


def escape_surrogates(json_text: str) -> str:
    """Return JSON with an escape for half of a surrogate pair, and two for a character beyond 16 bits."""
    if json_text.isascii():
        return json_text
    json_text = SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04X}", json_text)
    return BEYOND_16_BITS.sub(lambda match: _pair_escapes(match[0]), json_text)


def _pair_escapes(character: str) -> str:
    high_half, low_half = divmod(ord(character) - 0x10000, 0x400)
    return f"\\u{0xD800 + high_half:04X}\\u{0xDC00 + low_half:04X}"
