"""What is missing in a statement that can't be read, or joins that there are not: found in its text, with the place.

A keyword is a name where the grammar can't take it as one. So in `n + AS e` AS is a column for the parser, and CROSS in
`FROM s CROSS JOIN t` an alias, and what it says is about something else, further on.
"""

from __future__ import annotations

import re

from lakehouse.errors import SqlError

_SIGNS = r"\|\||<>|!=|<=|>=|->|:=|=>|[-+*/%=<>]"
_OPERATORS = r"\b(?:NOT|AND|OR|BETWEEN|LIKE)\b"
_CONDITIONS = r"\b(?:WHERE|HAVING|WHEN|ON)\b"
_VALUES = r"\b(?:THEN|ELSE|BY)\b"
_CLAUSE = (
    r"(?:(?:AS|FROM|WHERE|HAVING|THEN|ELSE|END|WHEN|AND|OR|(?:GROUP|PARTITION)\s+BY|EMIT\s+(?:CHANGES|FINAL))\b"
    r"|LIMIT\s+\d|WINDOW\s+(?:TUMBLING|HOPPING|SESSION)\b)(?!\s*\.)"
)
# The word before, and the word that can't follow: something is missing between them.
_GAPS = tuple(
    (what, re.compile(rf"(?P<before>{before})\s*(?P<after>{after})", re.IGNORECASE))
    for what, before, after in (
        ("The right side", f"{_SIGNS}|{_OPERATORS}", rf"{_CLAUSE}|[,)\]]|\Z"),
        ("A condition", _CONDITIONS, rf"{_CLAUSE}|[,)]|\Z"),
        ("A value", _VALUES, rf"{_CLAUSE}|[,)]|\Z"),
        ("A value", r"[(\[]", r"(?:AS|FROM)\b(?!\s*\.)"),
        ("A column", r",|\bSELECT\b", r"(?:AS|FROM)\b(?!\s*\.)"),
        ("A name", r"\bAS\b", r"(?:FROM\b(?!\s*(?:FROM\b|,))|,)"),
    )
)
_UNREAD = re.compile(r"'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_NESTED_TYPE = re.compile(r"\b(?:ARRAY|MAP|STRUCT)\s*<[^<>]*>", re.IGNORECASE)
_BEFORE_ALL_COLUMNS = (",", ".", "(", "->", "SELECT")
_CONDITION_OF_JOIN = "a join says ON a.id = b.id"
# Joins of other databases, and what does it here.
JOINS = {
    "CROSS": _CONDITION_OF_JOIN,
    "NATURAL": _CONDITION_OF_JOIN,
    "SEMI": "JOIN keeps the records that have a match",
    "ANTI": "LEFT JOIN keeps the records without a match, and WHERE b.id IS NULL only these",
    "ASOF": "a stream that joins a table reads the row of the record's time",
}
_OTHER_JOIN = re.compile(
    rf"\b(?P<word>{'|'.join(JOINS)})\s+(?:(?:LEFT|RIGHT|FULL|INNER|OUTER)\s+)*JOIN\b", re.IGNORECASE
)
_NEAR = 1_000  # characters in which to look for the word before


def check_joins(text: str) -> None:
    """Raise SqlError for a join that there is not. A source or an alias of its name is none."""
    if not _OTHER_JOIN.search(text):
        return
    read_text = _without_unread(text)
    for match in _OTHER_JOIN.finditer(read_text):
        word = match["word"].upper()
        word_before = re.search(r"(?:(\w+)|[)\]])\s+\Z", read_text[max(0, match.start() - _NEAR) : match.start()])
        is_behind_source = word_before is not None and (word_before[1] or "").upper() not in ("AS", "FROM", "JOIN")
        if is_behind_source and not re.search(rf"\b{word}\s*\.", read_text, re.IGNORECASE):
            raise SqlError(f"there is no {word} JOIN: {JOINS[word]}", match.start(), found=match["word"])


def missing_part(text: str, position: int) -> SqlError | None:
    """Return the error of the last gap in a statement that can't be read, up to the place where the parser ended."""
    read_text = _without_unread(text)
    gaps = [
        (match.start("after"), what, match)
        for what, pattern in _GAPS
        for match in pattern.finditer(read_text)
        if match.start("after") <= position and not _is_name(read_text, match)
    ]
    if not gaps:
        return None
    place, what, match = max(gaps, key=lambda gap: gap[0])
    return _gap_error(f"can't read this. {what}", match["before"], match["after"], place)


def missing_before(text: str, position: int) -> SqlError | None:
    """Return the error of a gap before a word that was taken for a name; None if there is none at this place."""
    error = missing_part(text, position)
    return error if error is not None and error.position == position < len(text.rstrip()) else None


def _gap_error(what: str, before: str, after: str, place: int) -> SqlError:
    before_word, after_word = before.upper(), " ".join(after.upper().split())
    if not after:
        return SqlError(f"{what} is missing after {before_word}", place, found="the end of the statement")
    return SqlError(f"{what} is missing between {before_word} and {after_word}", place, found=after_word)


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Say whether the word before a gap is a name, or the star of all columns: no keyword and no sign."""
    place = match.start("before")
    text_before = text[max(0, place - _NEAR) : place].rstrip().upper()
    if match["before"] == "*":
        return text_before.endswith(_BEFORE_ALL_COLUMNS)
    if not match["before"][0].isalpha() or match["before"].upper() == "SELECT":  # CREATE ... AS SELECT
        return False
    return re.search(r"(?:\bAS|\.)\Z", text_before) is not None


def _without_unread(text: str) -> str:
    """Return a text of the same length in which literals, quoted names, comments and types have other characters."""
    read_text = _UNREAD.sub(lambda part: (" " if part[0][:2] in ("--", "/*") else "x") * len(part[0]), text)
    written_text = ""
    while written_text != read_text:
        written_text, read_text = read_text, _NESTED_TYPE.sub(lambda part: "x" * len(part[0]), read_text)
    return read_text
