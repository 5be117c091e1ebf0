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


def parse_url(url: str, part: str, name: str | None = None) -> str | None:
    """Return try_parse_url: a part of a URL as it is written; None for one that it does not have, or for no URL."""
    found = _URI.fullmatch(url)
    if found is None or _REFUSED.search(url) or _BAD_ESCAPE.search(url) or "#" in (found["fragment"] or ""):
        return None
    if found["scheme"] is not None and found["authority"] is None and not found["path"].startswith("/"):
        # mailto:a@b.org: what follows the colon is one part, which has no name here.
        is_whole = found["path"] or found["query"] is not None
        return {"PROTOCOL": found["scheme"], "REF": found["fragment"]}.get(part) if is_whole else None
    if url.endswith("://"):
        return None  # Java expects an authority there
    authority = found["authority"]
    host = _HOST.fullmatch(authority) if authority else None
    values: dict[str, str | None] = {
        "HOST": host["host"] if host else None,
        "PATH": found["path"],
        "QUERY": found["query"],
        "REF": found["fragment"],
        "PROTOCOL": found["scheme"],
        "AUTHORITY": authority or None,
    }
    if part not in values:
        raise NeedsSpark(f"the model does not read the part {part!r} of a URL; run this on Spark.")
    value = values[part]
    if name is None or value is None:
        return value
    if part != "QUERY" or not re.fullmatch(r"\w+", name):
        raise NeedsSpark(f"the model does not look for {name!r} in {part}; run this on Spark.")
    parameter = re.search(rf"(?:&|^){name}=([^&]*)", value)
    return None if parameter is None else parameter[1]


def _decoded(text: str) -> str | None:
    """URLDecoder's: + is a blank; None for an escape that is none."""
    if _BAD_ESCAPE.search(text):
        return None
    return unquote_plus(text, errors="replace")


STRICT: dict[str, Callable[..., Any]] = {
    "try_parse_url": parse_url,
    "parse_url": parse_url,
    "try_url_decode": _decoded,
    "url_encode": lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
}
