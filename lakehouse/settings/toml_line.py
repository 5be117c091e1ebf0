"""Where a setting stands in a file, for messages."""

from __future__ import annotations

import re


def line_of(text: str, section: str, key: str) -> int:
    """The line (from 1) of ``key`` of ``section`` in TOML text; if it can't be located, the line of the section."""
    current, nearest, wanted = "", 1, f"{section}.{key}" if section else key
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            current = name = _bare(header[1])
        elif entry := re.match(r"""\s*("[^"]*"|'[^']*'|[\w.\s-]+?)\s*=""", line):
            name = f"{current}.{_bare(entry[1])}" if current else _bare(entry[1])
        else:
            continue
        if name == wanted or name.startswith(f"{wanted}."):
            return number
        if name == section:
            nearest = number
    return nearest


def _bare(name: str) -> str:
    return re.sub(r"\s*\.\s*", ".", name.replace('"', "").replace("'", ""))
