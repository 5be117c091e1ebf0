"""A text to a statement. An error points at the place, and says what was found there and what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from lakehouse.errors import SqlError
from lakehouse.ksql.syntax import likely
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.read_statement import StatementReader
from lakehouse.ksql.syntax.statement import Statement
from lakehouse.ksql.syntax.texts import TOO_DEEP
from lakehouse.plan.refused.near import suggest_near

LENGTH_MAX = 1_000_000
EXPECTED_MAX = 8
# lark's names of terminals, in words; a keyword is its own word.
TERMINALS = {
    "IDENT": "a name", "QUOTED": "", "STRING": "a text in quotes", "INTEGER": "a number", "DECIMAL": "", "FLOAT": "",
    "ADDITIVE": "+ or -", "CONCAT": "||", "$END": "the end of the statement",
}  # fmt: skip
# Statements of ksqlDB that lakehouse does not have, by their first words, and what to use instead.
REFUSED = {
    r"CREATE\s+(SOURCE\s+|SINK\s+)?CONNECTOR": "connectors belong to Kafka Connect: run it beside, and declare its "
    "topics",
    r"CREATE\s+(UNIQUE\s+)?INDEX": "tables are Delta tables: `lakehouse repair upkeep` lays their files out",
    r"CREATE\s+(OR\s+REPLACE\s+)?(MATERIALIZED\s+)?VIEW": "what is kept is a TABLE, and what is not a STREAM: CREATE "
    "TABLE ... AS SELECT, CREATE STREAM ... AS SELECT",
    r"(DROP|SHOW|LIST|DESCRIBE)\s+CONNECTORS?": "connectors belong to Kafka Connect: ask it, not lakehouse",
    r"ASSERT\s+(NOT\s+EXISTS\s+)?SCHEMA": "there is no schema registry here yet",
    r"SPOOL\b": "send the output to a file: lakehouse sql -f FILE --json > OUTPUT",
    r"HISTORY\b": "in the shell the arrow keys go through it, and Ctrl-R looks in it",
    r"RUN\s+SCRIPT": "give the file to the command: lakehouse sql -f FILE",
    r"(GRANT|REVOKE)\b": "who may do what is decided by Kafka and by the lake's storage; docs/configuration.md has TLS "
    "and SASL",
    r"ALTER\s+SYSTEM": "lakehouse has its own settings, in lakehouse.toml",
    r"(UPDATE|MERGE)\b": "a table changes by its records: INSERT INTO ... VALUES, or `lakehouse repair correct`",
    r"DELETE\b": "a record with a null value deletes a row; `lakehouse repair` has corrections",
}


@cache
def grammar() -> Lark:
    """Return the parser, made once: that takes about half a second."""
    text = Path(__file__).with_name("grammar.lark").read_text("utf-8")
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(text: str, types: Mapping[str, Kind] | None = None) -> Statement:
    """Return the one statement in a text, without a semicolon. types: those of CREATE TYPE. Raises SqlError."""
    if len(text) > LENGTH_MAX:
        raise SqlError(f"a statement has at most {LENGTH_MAX} characters", 0, found=f"{len(text)}").within(text[:100])
    _check_refused(text)
    try:
        return StatementReader(types or {}).statement(grammar().parse(text))
    except UnexpectedInput as error:
        raise _unexpected(error, text) from None
    except SqlError as error:
        raise error.within(text) from None
    except RecursionError:
        raise SqlError(TOO_DEEP, 0).within(text) from None


def _check_refused(text: str) -> None:
    bare = re.sub(r"^(\s|--[^\n]*(\n|$)|/\*.*?\*/)+", "", text, flags=re.DOTALL)
    for words, instead in REFUSED.items():
        if found := re.match(words, bare, re.IGNORECASE):
            word = " ".join(found[0].upper().split())
            raise SqlError(f"lakehouse has no {word}: {instead}", len(text) - len(bare)).within(text)


def _unexpected(error: UnexpectedInput, text: str) -> SqlError:
    at = min(error.pos_in_stream if error.pos_in_stream is not None else len(text), len(text))
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
        found = "the end of the statement" if error.token.type == "$END" else str(error.token)
        at = len(text.rstrip()) if error.token.type == "$END" else at
    elif isinstance(error, UnexpectedCharacters):
        names, found = set(error.allowed or ()), text[at : at + 1]
        if found in "'\"`" and found:
            return SqlError(f"the quote {found} is not closed", at).within(text)
        if text.startswith("/*", at):
            return SqlError("the comment /* is not closed", at).within(text)
    else:
        names, found = set(), "the end of the statement"
    keywords = [word for name in names if (word := _word(name)).isupper()]
    is_misspelt = found.isidentifier() and found.upper() not in ("SELECT", "ALL")
    meant = (suggest_near(found, keywords) if is_misspelt else "") or likely.meant(text, at, found, set(keywords))
    names -= _names() if "IDENT" in names else set()
    words = sorted({word for name in names if (word := _word(name))}, key=lambda word: (word[0].isupper(), word))
    shown = words[:EXPECTED_MAX] if len(words) <= EXPECTED_MAX else [*words[:EXPECTED_MAX], "..."]
    return SqlError(f"can't read this.{meant}".rstrip("."), at, found=found, expected=", ".join(shown)).within(text)


def _word(terminal: str) -> str:
    if terminal in TERMINALS:
        return TERMINALS[terminal]
    return next((str(one.pattern.value) for one in grammar().terminals if one.name == terminal), terminal)


def keywords() -> set[str]:
    """Return the words that the grammar knows."""
    return {word for one in grammar().terminals if (word := str(one.pattern.value)).isupper() and word.isalpha()}


@cache
def _names() -> set[str]:
    """The keywords that are names as well: where a name is expected, they need not be listed."""
    return {part.name for rule in grammar().rules if rule.origin.name == "word" for part in rule.expansion}
