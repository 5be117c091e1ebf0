"""Split a text into its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.syntax.missing import missing_before
from lakehouse.plan.names.field import name_fields_in_text

TOO_DEEP = "the statement is nested too deeply; split it into several"
# A text literal, a quoted name, a comment, or the end of a statement; a ; in the first three ends nothing.
_PART = re.compile(r"'(?:[^']|'')*(?:'|$)|`[^`]*`|\"[^\"]*\"|--[^\n]*|/\*.*?(?:\*/|$)|(;)", re.DOTALL)
_COMMENTS = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement of a text, without its semicolon, and the number of lines before it."""

    text: str
    line_before: int


def split_statements(text: str) -> Iterator[StatementText]:
    """Yield the statements of a text, in order. A comment alone is no statement."""
    statement_begin = 0
    statement_ends = [part.start() for part in _PART.finditer(text) if part[1]]
    for statement_end in (*statement_ends, len(text)):
        leading_comments = _COMMENTS.match(text, statement_begin, statement_end)
        first_character = leading_comments.end() if leading_comments else statement_begin
        if text[first_character:statement_end].strip():
            yield StatementText(text[first_character:statement_end], text.count("\n", 0, first_character))
        statement_begin = statement_end + 1


def comment_spans(text: str) -> list[tuple[int, int]]:
    """Return the begin and the end of each comment in a text."""
    return [part.span() for part in _PART.finditer(text) if part[0].startswith(("--", "/*"))]


def ends_statement(text: str) -> bool:
    """Say whether a text ends with the end of a statement, so that a shell need not wait for more."""
    statement_ends = [part.end() for part in _PART.finditer(text) if part[1]]
    return not text.strip() or bool(statement_ends and not _COMMENTS.sub("", text[statement_ends[-1] :]).strip())


@contextmanager
def locate_errors(position: int, text: StatementText) -> Iterator[None]:
    """Add the place to the errors of a statement that begins at this character of its text."""
    try:
        yield
    except SqlError as error:
        if (gap_error := missing_before(text.text, error.position)) is not None:
            raise gap_error.within(text.text, text.line_before) from None
        error.what, error.found, error.expected = (
            name_fields_in_text(part, text.text) for part in (error.what, error.found, error.expected)
        )
        raise error.within(text.text, text.line_before) from None
    except PlanError as error:
        raise SqlError(name_fields_in_text(str(error), text.text), position).within(
            text.text, text.line_before
        ) from None
    except RecursionError:
        raise SqlError(TOO_DEEP, position).within(text.text, text.line_before) from None
