"""Texts and tables as HTML, and the base class of values that a notebook shows."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

ROWS_SHOWN = 100
# Characters to escape: controls but for the end of a line and the tab, characters that change the direction of writing
# or are invisible (but for the joiners that scripts need), and halves of characters, which no stream takes.
OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)


def escaped(text: str) -> str:
    """Return a text with all characters that a terminal would obey, or not show, as \\x1b or \\u202e."""
    return OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def to_safe_html(text: str) -> str:
    """Return a text for HTML, also for an attribute in quotes."""
    return html.escape(escaped(text))


def to_paragraph(text: str, *, strong: bool = False) -> str:
    """Return a text as a paragraph."""
    return f"<p><b>{to_safe_html(text)}</b></p>" if strong else f"<p>{to_safe_html(text)}</p>"


def to_block(text: str) -> str:
    """Return a text unchanged, in letters of equal width."""
    return f'<pre style="line-height:1.3">{to_safe_html(text)}</pre>'


def to_html_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], text: Callable[[object], str], *, title: str = ""
) -> str:
    """Return rows as a table, the first ROWS_SHOWN of them, with a line that says how many there are.

    text: gives the text of a value. Numbers are aligned to the right, all else to the left.
    """
    all_rows = [list(row) for row in rows]
    head_cells = "".join(f'<th style="text-align:left">{to_safe_html(name)}</th>' for name in columns)
    body_rows = "".join(
        f"<tr>{''.join(_table_cell(value, text) for value in row)}</tr>" for row in all_rows[:ROWS_SHOWN]
    )
    more_line = to_paragraph(f"the first {ROWS_SHOWN} of {len(all_rows):,} rows") if len(all_rows) > ROWS_SHOWN else ""
    title_line = to_paragraph(title, strong=True) if title else ""
    return f"{title_line}<table><thead><tr>{head_cells}</tr></thead><tbody>{body_rows}</tbody></table>{more_line}"


def _table_cell(value: object, to_text: Callable[[object], str]) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    aligned_side = "right" if is_number else "left"
    return f'<td style="text-align:{aligned_side};white-space:pre-wrap">{to_safe_html(to_text(value))}</td>'


@singledispatch
def as_html(item: object) -> str:
    """Return the HTML of a value for a notebook; registered by its type."""
    return to_block(repr(item))


class InNotebook:
    """The base of values that a notebook shows as tables and pictures."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return as_html(self)
