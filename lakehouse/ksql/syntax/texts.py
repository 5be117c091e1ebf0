"""A text cut into its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakehouse.errors import PlanError, SqlError
from lakehouse.plan.names.field import field_name

TOO_DEEP = "the statement is nested too deeply; split it into several"
# A text, a quoted name, a comment, or the end of a statement; what is in the first three ends none.
_PART = re.compile(r"'(?:[^']|'')*(?:'|$)|`[^`]*`|\"[^\"]*\"|--[^\n]*|/\*.*?(?:\*/|$)|(;)", re.DOTALL)
_COMMENTS = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement of a text, without its semicolon, and how many lines come before it."""

    text: str
    line_before: int


def split_statements(text: str) -> Iterator[StatementText]:
    """Give the statements of a text, in their order. What is only a comment is none."""
    statement_begin = 0
    statement_ends = [part.start() for part in _PART.finditer(text) if part[1]]
    for statement_end in (*statement_ends, len(text)):
        leading_comments = _COMMENTS.match(text, statement_begin, statement_end)
        first_character = leading_comments.end() if leading_comments else statement_begin
        if text[first_character:statement_end].strip():
            yield StatementText(text[first_character:statement_end], text.count("\n", 0, first_character))
        statement_begin = statement_end + 1


def ends_statement(text: str) -> bool:
    """Say whether a text ends with a statement's end, so that a shell need not wait for more."""
    statement_ends = [part.end() for part in _PART.finditer(text) if part[1]]
    return not text.strip() or bool(statement_ends and not _COMMENTS.sub("", text[statement_ends[-1] :]).strip())


@contextmanager
def locate_errors(position: int, text: StatementText) -> Iterator[None]:
    """Give the errors of a statement, which begins at this character of its text, their place."""
    try:
        yield
    except SqlError as error:
        error.what, error.found, error.expected = map(field_name, (error.what, error.found, error.expected))
        raise error.within(text.text, text.line_before) from None
    except PlanError as error:
        raise SqlError(str(error), position).within(text.text, text.line_before) from None
    except RecursionError:
        raise SqlError(TOO_DEEP, position).within(text.text, text.line_before) from None
