"""Hints for texts that can't be read: the likely intent, beside the place of the error."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakehouse.plan.refused.near import suggest_near

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Types of other databases, and their names here.
TYPES = {
    "TEXT": "VARCHAR", "CHAR": "VARCHAR", "NVARCHAR": "VARCHAR", "UUID": "VARCHAR", "JSON": "VARCHAR",
    "LONG": "BIGINT", "INT64": "BIGINT", "UINT": "BIGINT", "SERIAL": "BIGINT", "SMALLINT": "INT", "TINYINT": "INT",
    "SHORT": "INT", "BYTE": "INT", "INT32": "INT", "FLOAT": "DOUBLE", "REAL": "DOUBLE", "FLOAT64": "DOUBLE",
    "NUMBER": "DECIMAL(38, 9)", "NUMERIC": "DECIMAL(38, 9)", "MONEY": "DECIMAL(19, 4)", "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP", "BLOB": "BYTES", "BINARY": "BYTES", "VARBINARY": "BYTES",
    "LIST": "ARRAY<...>", "OBJECT": "STRUCT<...>", "ROW": "STRUCT<...>",
}  # fmt: skip


def likely_type(word: str, known_types: Iterable[str]) -> str:
    """Return the type that an unknown word likely means: a similar name, or the match of another database's type."""
    if suggestion := suggest_near(word, list(known_types)):
        return suggestion
    return f" Did you mean {TYPES[word.upper()]}?" if word.upper() in TYPES else ""


def likely_meaning(text: str, position: int, found_text: str, expected_words: set[str]) -> str:
    """Return the likely intent of a text that can't be read at a place, with a blank before it; empty if unknown.

    found_text: the text that stands there. expected_words: the words that could stand there.
    """
    text_before = text[:position].rstrip()
    if "FROM" in expected_words and (
        select_match := re.search(r"(,|[-+*/%]|\bSELECT)\s*FROM\b", text[:position], re.IGNORECASE)
    ):
        missing_part = (
            "A column is missing" if select_match[1].upper() in (",", "SELECT") else "The right side is missing"
        )
        return f" {missing_part} between {select_match[1]} and FROM."
    if found_text == ")" and re.search(r"\bHOPPING\s*\(\s*SIZE\s+\d+\s+\w+$", text_before, re.IGNORECASE):
        return " A hopping window advances by a step: HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES); or TUMBLING."
    if found_text.startswith("=") and text_before.endswith("="):
        return " Values are compared with one =."
    if found_text.upper() == "BY" and re.search(r"\bORDER$", text_before, re.IGNORECASE):
        return " There is no ORDER BY: rows come as records do. TOPK keeps the largest, and readers of the table sort."
    if found_text.upper() == "WHERE":
        return " WHERE stands before GROUP BY and HAVING."
    if found_text == "(" and re.search(r"\bWINDOW\s+\w+$", text_before, re.IGNORECASE):
        return " A window is TUMBLING, HOPPING or SESSION."
    if found_text == "(" and re.search(r"\b(FROM|JOIN)$", text_before, re.IGNORECASE):
        return " There is no query inside of a query: declare it by CREATE STREAM ... AS SELECT, and read that."
    if found_text.upper() in ("SELECT", "ALL") and re.search(r"\bUNION$", text_before, re.IGNORECASE):
        return " There is no UNION: INSERT INTO ... SELECT adds the records of another query to a stream."
    if found_text == "(" and (call_name := _last_word(text_before)):
        return f" A comma is missing before {call_name}(...)."
    # The parser takes the word before for a name (FROM s WERE ...), so the error comes one word late.
    if (last_word := _last_word(text_before)) and (
        near_keyword := suggest_near(
            last_word, [expected_word for expected_word in expected_words if expected_word.isalpha()]
        )
    ):
        return f"{near_keyword.rstrip('?')} for {last_word}?"
    return ""


def _last_word(text: str) -> str:
    word_matches = list(_WORD.finditer(text))
    return word_matches[-1][0] if word_matches and word_matches[-1].end() == len(text) else ""
