"""Spark SQL's functions of URLs, which Java reads: java.net.URI, URLEncoder and URLDecoder."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from lakehouse.errors import NeedsSpark

# RFC 2396's parts, as java.net.URI names them.
_URI = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_HOST = re.compile(r"(?:[^@]*@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\.?)(?::[0-9]*)?")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_ESCAPES = re.compile("((?:%..)+)", re.DOTALL)
# A half of a surrogate pair in UTF-8 is one malformed part to Java, and two or three to Python.
_ENCODED_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
_REFUSED = re.compile(r'[\x00-\x20<>"{}|\\^`\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]')


def parse_url(url: str, part: str, parameter_name: str | None = None) -> str | None:
    """Return try_parse_url: a part of a URL as it is written; None for a missing part, and for an invalid URL."""
    match = _URI.fullmatch(url)
    if match is None or _REFUSED.search(url) or _BAD_ESCAPE.search(url) or "#" in (match["fragment"] or ""):
        return None
    if match["scheme"] is not None and match["authority"] is None and not match["path"].startswith("/"):
        # mailto:a@b.org: the text after the colon is one part, which has no name here.
        is_whole = match["path"] or match["query"] is not None
        return {"PROTOCOL": match["scheme"], "REF": match["fragment"]}.get(part) if is_whole else None
    if url.endswith("://"):
        return None  # Java expects an authority there
    authority = match["authority"]
    host_match = _HOST.fullmatch(authority) if authority else None
    parts_by_name: dict[str, str | None] = {
        "HOST": host_match["host"] if host_match else None,
        "PATH": match["path"],
        "QUERY": match["query"],
        "REF": match["fragment"],
        "PROTOCOL": match["scheme"],
        "AUTHORITY": authority or None,
    }
    if part not in parts_by_name:
        raise NeedsSpark(f"the model does not read the part {part!r} of a URL; run this on Spark.")
    value = parts_by_name[part]
    if parameter_name is None or value is None:
        return value
    if part != "QUERY" or not re.fullmatch(r"\w+", parameter_name):
        raise NeedsSpark(f"the model does not look for {parameter_name!r} in {part}; run this on Spark.")
    parameter_match = re.search(rf"(?:&|^){parameter_name}=([^&]*)", value)
    return None if parameter_match is None else parameter_match[1]


def _decode_url_text(text: str) -> str | None:
    """Decode as Java's URLDecoder: + is a blank; None for an invalid escape."""
    parts = _ESCAPES.split(text)
    for place, part in enumerate(parts):
        if place % 2 == 0:
            if "%" in part:
                return None
            parts[place] = part.replace("+", " ")
            continue
        codes = [_parse_hex(part[start + 1 : start + 3]) for start in range(0, len(part), 3)]
        if None in codes:
            return None
        encoded = _ENCODED_SURROGATE.sub("\ufffd".encode(), bytes(code for code in codes if code is not None))
        parts[place] = encoded.decode("utf-8", "replace")
    return "".join(parts)


def _parse_hex(digits: str) -> int | None:
    """Read two characters as Java's Integer.parseInt does, so that "+5" is 5; None if they are no number from 0 on."""
    negative = digits.startswith("-")
    number = 0
    for digit in digits[1:] if negative or digits.startswith("+") else digits:
        value = _hex_digit(digit)
        if value is None:
            return None
        number = number * 16 + value
    return None if negative and number else number


def _hex_digit(character: str) -> int | None:
    """Return the value of a digit of any alphabet of the first plane, as Java's Character.digit does for a char."""
    if character > "\uffff":
        return None
    letter = unicodedata.normalize("NFKC", character) if "\uff21" <= character <= "\uff46" else character
    if "A" <= letter <= "F" or "a" <= letter <= "f":
        return int(letter, 16)
    return unicodedata.decimal(character, None)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "try_parse_url": parse_url,
    "parse_url": parse_url,
    "try_url_decode": _decode_url_text,
    "url_encode": lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
}
