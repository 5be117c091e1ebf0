"""What a text that can't be read most likely means: the step to take beside the place of an error."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakehouse.plan.refused.near import suggest_near

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Types of other databases, and what they are here.
TYPES = {
    "TEXT": "VARCHAR", "CHAR": "VARCHAR", "NVARCHAR": "VARCHAR", "UUID": "VARCHAR", "JSON": "VARCHAR",
    "LONG": "BIGINT", "INT64": "BIGINT", "UINT": "BIGINT", "SERIAL": "BIGINT", "SMALLINT": "INT", "TINYINT": "INT",
    "SHORT": "INT", "BYTE": "INT", "INT32": "INT", "FLOAT": "DOUBLE", "REAL": "DOUBLE", "FLOAT64": "DOUBLE",
    "NUMBER": "DECIMAL(38, 9)", "NUMERIC": "DECIMAL(38, 9)", "MONEY": "DECIMAL(19, 4)", "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP", "BLOB": "BYTES", "BINARY": "BYTES", "VARBINARY": "BYTES",
    "LIST": "ARRAY<...>", "OBJECT": "STRUCT<...>", "ROW": "STRUCT<...>",
}  # fmt: skip


def meant_type(word: str, known: Iterable[str]) -> str:
    """Return which type an unknown word means: one that is near, or what another database's is here."""
    if meant := suggest_near(word, list(known)):
        return meant
    return f" Did you mean {TYPES[word.upper()]}?" if word.upper() in TYPES else ""


def meant(text: str, at: int, found: str, expected: set[str]) -> str:
    """Return the likely intent of a text that can't be read at a place, with a blank before it; empty if unknown.

    found: what stands there. expected: the words that could stand there.
    """
    before = text[:at].rstrip()
    if "FROM" in expected and (name := re.search(r"(,|[-+*/%]|\bSELECT)\s*FROM\b", text[:at], re.IGNORECASE)):
        lacks = "A column is missing" if name[1].upper() in (",", "SELECT") else "The right side is missing"
        return f" {lacks} between {name[1]} and FROM."
    if found == ")" and re.search(r"\bHOPPING\s*\(\s*SIZE\s+\d+\s+\w+$", before, re.IGNORECASE):
        return " A hopping window advances by a step: HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES); or TUMBLING."
    if found.startswith("=") and before.endswith("="):
        return " Values are compared with one =."
    if found.upper() == "BY" and re.search(r"\bORDER$", before, re.IGNORECASE):
        return " There is no ORDER BY: rows come as records do. TOPK keeps the largest, and readers of the table sort."
    if found.upper() == "WHERE":
        return " WHERE stands before GROUP BY and HAVING."
    if found == "(" and re.search(r"\bWINDOW\s+\w+$", before, re.IGNORECASE):
        return " A window is TUMBLING, HOPPING or SESSION."
    if found == "(" and re.search(r"\b(FROM|JOIN)$", before, re.IGNORECASE):
        return " There is no query inside of a query: declare it by CREATE STREAM ... AS SELECT, and read that."
    if found.upper() in ("SELECT", "ALL") and re.search(r"\bUNION$", before, re.IGNORECASE):
        return " There is no UNION: INSERT INTO ... SELECT adds the records of another query to a stream."
    if found == "(" and (call := _last_word(before)):
        return f" A comma is missing before {call}(...)."
    # The word before is taken as a name (FROM s WERE ...), so the error comes one word late.
    if (word := _last_word(before)) and (keyword := suggest_near(word, [one for one in expected if one.isalpha()])):
        return f"{keyword.rstrip('?')} for {word}?"
    return ""


def _last_word(text: str) -> str:
    words = list(_WORD.finditer(text))
    return words[-1][0] if words and words[-1].end() == len(text) else ""
