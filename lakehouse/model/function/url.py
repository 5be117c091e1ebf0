"""Spark SQL's functions of URLs, which Java reads: java.net.URI, URLEncoder and URLDecoder."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from lakehouse.errors import NeedsSpark

# RFC 2396's parts, as java.net.URI names them.
_URI = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_HOST = re.compile(r"(?:[^@]*@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\.?)(?::[0-9]*)?")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
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
    if _BAD_ESCAPE.search(text):
        return None
    return unquote_plus(text, errors="replace")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "try_parse_url": parse_url,
    "parse_url": parse_url,
    "try_url_decode": _decode_url_text,
    "url_encode": lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
}
