"""Parse a text to a statement. An error points at the place, and names the text there and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lark import PostLex

from lakehouse.errors import SqlError
from lakehouse.ksql.syntax import hints, missing
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.read_statement import StatementReader
from lakehouse.ksql.syntax.split_text import TOO_DEEP
from lakehouse.ksql.syntax.statement import Statement

LENGTH_MAX = 1_000_000
EXPECTED_MAX = 8
_WORD = re.compile(r"[A-Za-z0-9_@]+")
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
def load_grammar() -> Lark:
    """Return the parser; only the first call builds it, which takes about half a second."""
    text = Path(__file__).with_name("grammar.lark").read_text("utf-8")
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=False, postlex=_WholeWords())


class _WholeWords(PostLex):
    """A check that a keyword ends where its word ends: lark takes CREATE STREAMS for CREATE STREAM and a name S."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        previous = Token("START", "")
        for token in stream:
            if previous.end_pos == token.start_pos and _WORD.fullmatch(previous) and _WORD.match(token):
                hint = f" Did you mean {previous.upper()!r}?" if previous.isalpha() else " A blank is missing"
                raise SqlError(f"can't read this.{hint}", previous.start_pos or 0, found=previous + token)
            yield token
            previous = token


def parse(text: str, types: Mapping[str, Kind] | None = None) -> Statement:
    """Return the one statement in a text, without a semicolon. types: those of CREATE TYPE. Raises SqlError."""
    if len(text) > LENGTH_MAX:
        raise SqlError(f"a statement has at most {LENGTH_MAX} characters", 0, found=f"{len(text)}").within(text[:100])
    _check_refused(text)
    try:
        missing.check_joins(text)
        return StatementReader(types or {}).statement(load_grammar().parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    except SqlError as error:
        raise error.within(text) from None
    except RecursionError:
        raise SqlError(TOO_DEEP, 0).within(text) from None


def _check_refused(text: str) -> None:
    bare_text = re.sub(r"^(\s|--[^\n]*(\n|$)|/\*.*?\*/)+", "", text, flags=re.DOTALL)
    for pattern, alternative in REFUSED.items():
        if match := re.match(pattern, bare_text, re.IGNORECASE):
            statement_words = " ".join(match[0].upper().split())
            raise SqlError(f"lakehouse has no {statement_words}: {alternative}", len(text) - len(bare_text)).within(
                text
            )


def _syntax_error(error: UnexpectedInput, text: str) -> SqlError:
    position = min(error.pos_in_stream if error.pos_in_stream is not None else len(text), len(text))
    if text.startswith("/*", position):
        return SqlError("the comment /* is not closed", position).within(text)
    if isinstance(error, UnexpectedToken):
        terminal_names = set(error.accepts or error.expected)
        found_text = "the end of the statement" if error.token.type == "$END" else str(error.token)
        position = len(text.rstrip()) if error.token.type == "$END" else position
    elif isinstance(error, UnexpectedCharacters):
        terminal_names, found_text = set(error.allowed or ()), text[position : position + 1]
        if found_text in "'\"`" and found_text:
            return SqlError(f"the quote {found_text} is not closed", position).within(text)
    else:
        terminal_names, found_text = set(), "the end of the statement"
    if (gap_error := missing.missing_part(text, position)) is not None:
        return gap_error.within(text)
    expected_keywords = [word for terminal_name in terminal_names if (word := _terminal_word(terminal_name)).isupper()]
    suggestion = hints.likely_meaning(text, position, found_text, set(expected_keywords))
    terminal_names -= _keyword_names() if "IDENT" in terminal_names else set()
    expected_words = sorted(
        {word for terminal_name in terminal_names if (word := _terminal_word(terminal_name))},
        key=lambda word: (word[0].isupper(), word),
    )
    listed_words = (
        expected_words[:EXPECTED_MAX]
        if len(expected_words) <= EXPECTED_MAX
        else [*expected_words[:EXPECTED_MAX], "..."]
    )
    return SqlError(
        f"can't read this.{suggestion}".rstrip("."), position, found=found_text, expected=", ".join(listed_words)
    ).within(text)


def _terminal_word(terminal: str) -> str:
    if terminal in TERMINALS:
        return TERMINALS[terminal]
    return next(
        (
            str(known_terminal.pattern.value)
            for known_terminal in load_grammar().terminals
            if known_terminal.name == terminal
        ),
        terminal,
    )


def grammar_keywords() -> set[str]:
    """Return the keywords of the grammar."""
    return {
        word
        for terminal in load_grammar().terminals
        if (word := str(terminal.pattern.value)).isupper() and word.isalpha()
    }


@cache
def _keyword_names() -> set[str]:
    """Return the keywords that are names as well: a message that expects a name need not list them."""
    return {part.name for rule in load_grammar().rules if rule.origin.name == "word" for part in rule.expansion}
