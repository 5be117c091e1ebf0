"""Hints for texts that can't be read: the likely intent, beside the place of the error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

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
# Functions of other databases, and what does it here.
FUNCTIONS = {
    "UPPER": "UCASE", "LOWER": "LCASE", "LENGTH": "LEN", "CHAR_LENGTH": "LEN", "CHARACTER_LENGTH": "LEN",
    "SUBSTR": "SUBSTRING", "STRPOS": "INSTR", "CHARINDEX": "INSTR", "LOCATE": "INSTR", "POSITION": "INSTR",
    "CEILING": "CEIL", "POW": "POWER", "ISNULL": "IFNULL", "TO_CHAR": "FORMAT_TIMESTAMP",
    "DATE_FORMAT": "FORMAT_TIMESTAMP", "TO_TIMESTAMP": "PARSE_TIMESTAMP", "TO_DATE": "PARSE_DATE",
    "STR_TO_DATE": "PARSE_DATE", "DATE_ADD": "DATEADD", "DATE_SUB": "DATESUB", "ARRAY_AGG": "COLLECT_LIST",
    "LIST_AGG": "COLLECT_LIST", "LISTAGG": "COLLECT_LIST", "STRING_AGG": "COLLECT_LIST", "GROUP_CONCAT": "COLLECT_LIST",
    "FIRST": "EARLIEST_BY_OFFSET", "FIRST_VALUE": "EARLIEST_BY_OFFSET", "LAST": "LATEST_BY_OFFSET",
    "LAST_VALUE": "LATEST_BY_OFFSET", "ANY_VALUE": "LATEST_BY_OFFSET", "STDDEV": "STDDEV_SAMP", "CORR": "CORRELATION",
    "APPROX_COUNT_DISTINCT": "COUNT_DISTINCT", "SIZE": "ARRAY_LENGTH", "CARDINALITY": "ARRAY_LENGTH",
    "UNNEST": "EXPLODE", "JSON_VALUE": "EXTRACTJSONFIELD", "JSON_EXTRACT": "EXTRACTJSONFIELD",
    "GET_JSON_OBJECT": "EXTRACTJSONFIELD", "TO_JSON": "TO_JSON_STRING",
}  # fmt: skip
_INSIDE = {"ARRAY": "ARRAY<VARCHAR>", "MAP": "MAP<VARCHAR, INT>", "STRUCT": "STRUCT<city VARCHAR>"}
_NEAR_MIN = 0.6
_LIKE_ON = ("IN", "OM", "NO", "OB", "OF", "ONN", "OON", "BY", "WITH")


def likely_type(word: str, known_types: Iterable[str]) -> str:
    """Return the type that an unknown word likely means: a similar name, or the match of another database's type."""
    if word in _INSIDE:
        return f" It does not say what is in it: {_INSIDE[word]}."
    if suggestion := suggest_near(word, list(known_types)):
        return suggestion
    return f" Did you mean {TYPES[word.upper()]}?" if word.upper() in TYPES else ""


def likely_meaning(text: str, position: int, found_text: str, expected_words: set[str]) -> str:
    """Return the likely intent of a text that can't be read at a place, with a blank before it; empty if unknown.

    found_text: the text that stands there. expected_words: the words that could stand there.
    """
    text_before = text[:position].rstrip()
    if found_text == ")" and re.search(r"\bHOPPING\s*\(\s*SIZE\s+\d+\s+\w+$", text_before, re.IGNORECASE):
        return " A hopping window advances by a step: HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES); or TUMBLING."
    if found_text.startswith("=") and text_before.endswith("="):
        return " Values are compared with one =."
    if found_text.upper() == "BY" and re.search(r"\bORDER$", text_before, re.IGNORECASE):
        return " There is no ORDER BY: rows come as records do. TOPK keeps the largest, and readers of the table sort."
    if found_text.upper() == "WITHIN":
        return " WITHIN stands before ON: JOIN b WITHIN 1 HOUR ON a.id = b.id."
    if "ON" in expected_words and re.search(r"\bJOIN\s+[^(\s]", text_before, re.IGNORECASE):
        near_word = _near_keyword(found_text, _last_word(text_before), expected_words)
        return near_word or f"{_near_on(found_text, _last_word(text_before))} A join says ON a.id = b.id."
    if found_text.upper() == "WHERE":
        return " WHERE stands before GROUP BY and HAVING."
    if re.search(r"\w\s*\(\s*DISTINCT$", text_before, re.IGNORECASE):
        return f" COUNT_DISTINCT({found_text}) counts different values, COLLECT_SET({found_text}) lists them."
    if re.search(r"\bINTERVAL$", text_before, re.IGNORECASE):
        return " A time is moved by a function: TIMESTAMPADD(DAYS, 1, at), DATEADD, TIMEADD."
    if found_text == "," and re.search(r"\bCAST\s*\([^(),]*$", text_before, re.IGNORECASE):
        return " The type stands after AS: CAST(a AS BIGINT)."
    if found_text == "," and re.search(r"\bFROM\s+\w+(\s+(AS\s+)?\w+)?$", text_before, re.IGNORECASE):
        return " Sources are joined by JOIN ... ON, not by commas."
    if found_text == "(" and re.search(r"\bWINDOW\s+\w+$", text_before, re.IGNORECASE):
        return " A window is TUMBLING, HOPPING or SESSION."
    if found_text == "(" and re.search(r"\b(FROM|JOIN)$", text_before, re.IGNORECASE):
        return " There is no query inside of a query: declare it by CREATE STREAM ... AS SELECT, and read that."
    if found_text.upper() in ("SELECT", "ALL") and re.search(r"\bUNION$", text_before, re.IGNORECASE):
        return " There is no UNION: INSERT INTO ... SELECT adds the records of another query to a stream."
    if found_text == "(" and (call_name := _last_word(text_before)):
        return f" A comma is missing before {call_name}(...)."
    return _near_keyword(found_text, _last_word(text_before), expected_words)


def _near_on(found_text: str, last_word: str) -> str:
    """Return the word that was likely meant to be ON; empty if none is. It is too short for `_near_keyword`."""
    if found_text.upper() in _LIKE_ON:
        return " Did you mean 'ON'?"
    return f" Did you mean 'ON' for {last_word}?" if last_word.upper() in _LIKE_ON else ""


def _near_keyword(found_text: str, last_word: str, expected_words: set[str]) -> str:
    """Return the keyword that a word was likely meant to be, by its likeness; empty if none is near.

    last_word: the word before. The parser takes it for a name (FROM s WERE ...), so the error comes one word late.
    """
    likeness = [
        (SequenceMatcher(None, word.upper(), keyword).ratio(), keyword, word)
        for word in (found_text, last_word)
        if len(word) > 2 and word.isidentifier() and word.upper() not in ("SELECT", "ALL")
        for keyword in sorted(expected_words)
        if keyword.isalpha() and keyword != word.upper()
    ]
    ratio, keyword, word = max(likeness, default=(0, "", ""))
    if ratio < _NEAR_MIN:
        return ""
    return f" Did you mean {keyword!r}?" if word == found_text else f" Did you mean {keyword!r} for {word}?"


def _last_word(text: str) -> str:
    word_matches = list(_WORD.finditer(text))
    return word_matches[-1][0] if word_matches and word_matches[-1].end() == len(text) else ""
