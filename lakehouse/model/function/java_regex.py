"""Java's regular expressions in Python, for the model: translated piece by piece, and NeedsSpark for a piece that is
not known to mean the same in both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from lakehouse.errors import NeedsSpark

# Java ends a line at each of these, Python at a newline only.
_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_ANY_CHARACTER = f"[^{_LINE_ENDS}]"
_LAST_LINE_END = rf"(?=(?:\r\n|(?<!\r)\n|[{_LINE_ENDS[2:]}])?\Z)"
# Python knows no boundary in an empty text, and \B would match nowhere in it.
_BOUNDARY = r"(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))"
_NO_BOUNDARY = r"(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))"

_PIECE = re.compile(
    r"""
    \\(?: (?P<class>[dDwWsS]) | (?P<control>[tnrf]) | (?P<boundary>[bB]) | (?P<start>A) | (?P<group>[1-9](?![0-9]))
        | x(?P<code>[0-9A-Fa-f]{2}) | u(?P<unit>[0-9A-Fa-f]{4}) | (?P<sign>[!-/:-@\[-`{-~\ ]|[^\x00-\x7f]) )
    | (?P<set>\[) | (?P<any>\.) | (?P<end>\$) | (?P<begin>\^)
    | (?P<open>\((?:\?(?:<?[=!]|[:>]))?(?!\?))
    | (?P<repeated>(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})\??)(?![+*?{])
    | (?P<bar>\|) | (?P<close>\))
    | (?P<plain>[^\\\[()*+?{|.^$])
    """,
    re.VERBOSE | re.DOTALL,
)
_CODE = r"\\x[0-9A-Fa-f]{2}|\\u(?![dD][89a-fA-F])[0-9A-Fa-f]{4}"
_SET_ITEM = re.compile(
    rf"""
    \\(?: (?P<class>[dDwWsS]) | (?P<control>[tnrf]) | (?P<sign>[!-/:-@\[-`{{-~\ ]) )
    | (?P<range>(?:[0-9A-Za-z]|{_CODE})-(?:[0-9A-Za-z]|{_CODE}))(?!-(?!\]))
    | (?P<code>{_CODE})(?!-(?!\]))
    | (?P<plain>[^\\\[\]&-])(?!-(?!\]))
    | (?P<dash>-)(?=\]) | (?<=\[)(?P<first_dash>-)(?!-) | (?<=\[\^)(?P<second_dash>-)(?!-)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Translation:
    pattern: re.Pattern[str]
    has_boundary: bool


class JavaPattern:
    """A pattern of Java, which is searched for as Java does. Raises NeedsSpark where Python may differ."""

    def __init__(self, pattern_text: str) -> None:
        self._text, self._translation = pattern_text, _translate_pattern(pattern_text)

    @property
    def group_count(self) -> int:
        """Return the number of the pattern's groups."""
        return self._translation.pattern.groups

    def first_match(self, text: str) -> re.Match[str] | None:
        """Return the first match; None if there is none. Raises NeedsSpark."""
        self._check_letters(text)
        return self._translation.pattern.search(text)

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield all matches. Unlike Python's, an empty one hides a longer one that begins at the same place."""
        self._check_letters(text)
        has_pairs, start = max(text, default="") > "\uffff", 0
        while start <= len(text) and (match := self._translation.pattern.search(text, start)):
            if has_pairs and match.end() == match.start():
                raise self._needs_spark("an empty match inside of a character, between its two halves")
            yield match
            start = match.end() + (match.end() == match.start())

    def _check_letters(self, text: str) -> None:
        if self._translation.has_boundary and not text.isascii():
            raise self._needs_spark("letters of other alphabets at the boundary of a word")

    def _needs_spark(self, reason: str) -> NeedsSpark:
        return NeedsSpark(f"the pattern {self._text!r} may find {reason}, as Java does; run this on Spark.")


@lru_cache(maxsize=1024)
def _translate_pattern(pattern_text: str) -> _Translation:
    parts: list[str] = []
    group_starts: list[int] = []
    group_signs: list[str] = []
    group_text = ""
    place, has_boundary, may_repeat = 0, False, False
    while place < len(pattern_text):
        piece = _PIECE.match(pattern_text, place)
        if piece is None or (piece["repeated"] and not may_repeat):
            raise _unknown_pattern(pattern_text)
        place = piece.end()
        kind = piece.lastgroup
        if kind == "set":
            set_text, place = _translate_set(pattern_text, place)
            parts.append(set_text)
        else:
            parts.append(_translate_piece(piece, pattern_text))
        has_boundary = has_boundary or kind == "boundary"
        if kind == "repeated" and _may_be_empty(group_text):
            raise _unknown_pattern(pattern_text)  # what the groups inside have matched at last differs
        group_text = ""
        if kind == "open":
            if piece[0] == "(" and ("(?!" in group_signs or "(?<!" in group_signs):
                raise _unknown_pattern(pattern_text)  # Java keeps what a group has matched in vain
            group_starts.append(len(parts))
            group_signs.append(piece[0])
        elif kind == "close" and group_starts:
            group_signs.pop()
            group_text = "".join(parts[group_starts.pop() - 1 :])
        # Java and Python disagree about the repetition of a place between characters, and of a repetition.
        may_repeat = kind not in ("repeated", "boundary", "start", "end", "begin", "open", "bar")
    try:
        return _Translation(re.compile("".join(parts), re.ASCII), has_boundary)
    except (re.error, OverflowError):
        raise _unknown_pattern(pattern_text) from None


def _may_be_empty(group_text: str) -> bool:
    """Say whether a group of a translated pattern may match nothing, as far as it can be told; False for no group."""
    if not group_text:
        return False
    try:
        return bool(re.search(r"\(\?<?[=!]|\^|\\A", group_text) or re.compile(group_text).fullmatch(""))
    except re.error:
        return True  # it refers to another group


def _translate_piece(piece: re.Match[str], pattern_text: str) -> str:
    """Return a piece of a pattern, other than a set, as Python writes it."""
    text = piece[0]
    match piece.lastgroup:
        case "boundary":
            return _BOUNDARY if text == "\\b" else _NO_BOUNDARY
        case "any":
            return _ANY_CHARACTER
        case "end":
            return _LAST_LINE_END
        case "unit":
            if 0xD800 <= int(piece["unit"], 16) <= 0xDFFF:
                raise _unknown_pattern(pattern_text)
            return text
        case "plain":
            return re.escape(text)
    return text


def _translate_set(pattern_text: str, place: int) -> tuple[str, int]:
    """Return a set [...] as Python writes it, and the place behind it. place: behind its bracket."""
    parts = ["["]
    if pattern_text.startswith("^", place):
        parts.append("^")
        place += 1
    if pattern_text.startswith("]", place):
        raise _unknown_pattern(pattern_text)
    while not pattern_text.startswith("]", place):
        item = _SET_ITEM.match(pattern_text, place)
        # Java searches half a character's pair, too, if the pattern has one.
        if item is None or max(item[0]) > "\uffff":
            raise _unknown_pattern(pattern_text)
        place = item.end()
        parts.append(
            re.escape(item[0]) if item.lastgroup not in ("class", "control", "sign", "range", "code") else item[0]
        )
    return "".join([*parts, "]"]), place + 1


def _unknown_pattern(pattern_text: str) -> NeedsSpark:
    return NeedsSpark(f"the model does not read the pattern {pattern_text!r:.200} as Java does; run this on Spark.")
