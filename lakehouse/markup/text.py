"""Texts and tables as HTML, and the base of what a notebook shows."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

ROWS_SHOWN = 100
# What is no text to look at: controls but for the end of a line and the tab, what changes the direction of writing or
# can't be seen (but for the joiners that scripts need), and halves of characters, which no stream takes.
OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)


def escaped(text: str) -> str:
    """Return a text with everything that a terminal would obey, or not show, as \\x1b or \\u202e."""
    return OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def safe(text: str) -> str:
    """Return a text for HTML, also for an attribute in quotes."""
    return html.escape(escaped(text))


def line(text: str, *, strong: bool = False) -> str:
    """Return a text as a paragraph."""
    return f"<p><b>{safe(text)}</b></p>" if strong else f"<p>{safe(text)}</p>"


def block(text: str) -> str:
    """Return a text as it is, in letters of equal width."""
    return f'<pre style="line-height:1.3">{safe(text)}</pre>'


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], text: Callable[[object], str], *, title: str = ""
) -> str:
    """Return rows as a table, the first ROWS_SHOWN of them, with a line that says how many there are.

    text: gives the text of a value. Numbers are to the right, all else to the left.
    """
    every = [list(row) for row in rows]
    head = "".join(f'<th style="text-align:left">{safe(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value, text) for value in row)}</tr>" for row in every[:ROWS_SHOWN])
    more = line(f"the first {ROWS_SHOWN} of {len(every):,} rows") if len(every) > ROWS_SHOWN else ""
    above = line(title, strong=True) if title else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object, text: Callable[[object], str]) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    side = "right" if number else "left"
    return f'<td style="text-align:{side};white-space:pre-wrap">{safe(text(value))}</td>'


@singledispatch
def as_html(item: object) -> str:
    """Return what a notebook shows of a value; registered by its type."""
    return block(repr(item))


class InNotebook:
    """The base of values that a notebook shows as tables and pictures."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return as_html(self)
