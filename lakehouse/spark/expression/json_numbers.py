"""Keeps numbers as a JSON text writes them, where Spark would write them through a double: 1.50 as 1.5.

A copy of the text has the numbers in quotes, behind a mark; the marks are removed again after reading. A mark in the
text itself is doubled before.
"""

from __future__ import annotations

MARK = "\x7f"
# The start of a number that Spark would write in another way.
OTHER = "(?:-?[0-9]+[.eE]|-0)"
# \G: from the end of the number before. The pattern skips quoted texts as a whole.
_NUMBERS = r'\G((?:[^"0-9-]++|-(?![0-9])|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+)(-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?)'
# An escape of the mark, unless a backslash escapes the escape.
_ESCAPED = r"((?<!\\)(?:\\\\)*)\\u007[fF]"
# Replacements in order: pattern and text.
MARKED = ((_ESCAPED, f"$1{MARK}"), (MARK, MARK * 2), (_NUMBERS, f'$1"{MARK}$2"'))
UNMARKED = ((f"^{MARK}([0-9-].*)$", "$1"), (f'"{MARK}([0-9-][^"]*)"', "$1"), (MARK * 2, MARK))


def _sql_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _replace_in_sql(text: str, replacements: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in replacements:
        text = f"regexp_replace({text}, {_sql_text(pattern)}, {_sql_text(replacement)})"
    return text


_TEXT = "cast(`0` AS string)"
_BEFORE = r"(?:^|[:,\[])\s*"
_HAS_OTHER = f"{_TEXT} RLIKE {_sql_text(_BEFORE + OTHER)}"
_EXACT = _replace_in_sql(f"get_json_object({_replace_in_sql(_TEXT, MARKED)}, `1`)", UNMARKED)
# The call, over a JSON text `0` and a path `1`; its value has the numbers of the text.
AT_PATH = f"if({_HAS_OTHER}, {_EXACT}, get_json_object(`0`, `1`))"
