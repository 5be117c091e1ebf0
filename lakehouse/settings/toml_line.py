"""Finds the line of a setting in a file, for messages."""

from __future__ import annotations

import re


def find_line(text: str, section: str, key: str) -> int:
    """Return the line (from 1) of ``key`` of ``section`` in TOML text; the section's if the key can't be located."""
    current_section, nearest_line, wanted_name = "", 1, f"{section}.{key}" if section else key
    for line_number, line in enumerate(text.splitlines(), start=1):
        if header_match := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            current_section = full_name = _strip_quotes(header_match[1])
        elif entry_match := re.match(r"""\s*("[^"]*"|'[^']*'|[\w.\s-]+?)\s*=""", line):
            full_name = (
                f"{current_section}.{_strip_quotes(entry_match[1])}"
                if current_section
                else _strip_quotes(entry_match[1])
            )
        else:
            continue
        if full_name == wanted_name or full_name.startswith(f"{wanted_name}."):
            return line_number
        if full_name == section:
            nearest_line = line_number
    return nearest_line


def _strip_quotes(name: str) -> str:
    return re.sub(r"\s*\.\s*", ".", name.replace('"', "").replace("'", ""))
