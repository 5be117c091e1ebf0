"""Output: for people tables, readable numbers and times in UTC; for programs JSON.

All output of the commands goes through here (tests/test_structure.py): a record may have characters that a terminal
obeys, such as a sequence that clears the screen or turns the rest of the line around; these are shown escaped.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse.markup.plain import plain_text
from lakehouse.markup.shown import ABSENT as ABSENT
from lakehouse.markup.shown import cell as cell
from lakehouse.markup.shown import moment as moment
from lakehouse.markup.shown import number as number
from lakehouse.markup.shown import pairs as pairs
from lakehouse.markup.shown import value as value
from lakehouse.markup.shown import without_not_finite
from lakehouse.markup.text import OBEYED
from lakehouse.markup.text import escaped as escaped

PIPE_WIDTH = 160
ERASE_LINE = "\r\x1b[2K"
NUMBERED = ("version", "tick", "offset", "partition", "pid")  # columns whose numbers name something


_line_lock = threading.Lock()
_has_line = threading.Event()


def rewrite_line(text: str) -> None:
    """Show one line on stderr, which is a terminal, until other output, or the next line, takes its place."""
    columns = shutil.get_terminal_size().columns
    with _line_lock:
        sys.stderr.write(ERASE_LINE + escaped(text)[: columns - 1])
        sys.stderr.flush()
        _has_line.set() if text else _has_line.clear()


def _take_line_away() -> None:
    if _has_line.is_set():
        rewrite_line("")


def say(text: str, *, stderr: bool = False, nl: bool = True) -> None:
    """Print a text, escaped."""
    _take_line_away()
    typer.echo(escaped(text), err=stderr, nl=nl)


def clear_terminal() -> None:
    """Clear the terminal; do nothing without one."""
    console().clear()


def console(*, stderr: bool = False) -> Console:
    """Return a console for the present stdout or stderr, which tests and pipes exchange."""
    _take_line_away()
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else PIPE_WIDTH)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str | None = None,
    text: Callable[[Any], str] | None = None,
) -> None:
    """Print a table; numbers are aligned to the right. Nothing in a cell is markup.

    text: makes the text of a cell; by default a count is 1,234,567, and a number that names something, such as a tick,
    1234567.
    """
    cells = [list(row) for row in rows]
    if title:  # as a line of its own, because a table breaks its title at its width
        console().print(Text(escaped(f"\n{title}"), "bold"))
    rich_table = Table(caption=None if caption is None else Text(escaped(caption)), caption_justify="left")
    for column_number, name in enumerate(columns):
        column_values = [row[column_number] for row in cells if row[column_number] is not None]
        is_numeric = bool(column_values) and all(isinstance(value, int | float | Decimal) for value in column_values)
        rich_table.add_column(Text(escaped(name)), justify="right" if is_numeric else "left", overflow="fold")
    text_makers = [text or (number if name in NUMBERED else cell) for name in columns]
    for row in cells:
        rich_table.add_row(*[Text(escaped(to_text(value))) for to_text, value in zip(text_makers, row, strict=True)])
    console().print(rich_table)


def print_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value as one line of JSON. stderr: for progress, so that stdout has only the result."""
    print_json_text(json.dumps(without_not_finite(value), default=plain_text, ensure_ascii=False), stderr=stderr)


def print_json_text(line: str, *, stderr: bool = False) -> None:
    """Print a JSON text that is one line already, escaped as JSON has it."""
    _take_line_away()
    typer.echo(OBEYED.sub(lambda match: json.dumps(match[0])[1:-1], line), err=stderr)


def print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV: unchanged for a program or a file, escaped on a terminal."""
    _take_line_away()
    csv_text = io.StringIO()
    writer = csv.writer(csv_text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(map(_csv_cell, row))
    # Not by echo, which removes colours for a program.
    sys.stdout.write(escaped(csv_text.getvalue()) if sys.stdout.isatty() else csv_text.getvalue())


def _csv_cell(cell_value: Any) -> str:
    """Return a value as in JSON: true, NaN, [1, null]; text and bytes without quotes, null as nothing."""
    match cell_value:
        case None:
            return ""
        case bool() | Mapping() | list() | tuple():
            return value(cell_value)
        case float():
            return str(without_not_finite(cell_value))
    return plain_text(cell_value)
