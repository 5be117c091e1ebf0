"""What a person reads: tables, human numbers, times in UTC. What a program reads: JSON.

All that the commands print goes through here (tests/test_structure.py): a record may hold what a terminal obeys, such
as an escape sequence that clears the screen, or one that turns the rest of the line around; it is shown escaped.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse.formats.plain import plain
from lakehouse.formats.shown import ABSENT as ABSENT
from lakehouse.formats.shown import cell as cell
from lakehouse.formats.shown import in_json
from lakehouse.formats.shown import moment as moment
from lakehouse.formats.shown import number as number
from lakehouse.formats.shown import pairs as pairs
from lakehouse.formats.shown import value as value
from lakehouse.markup.text import OBEYED
from lakehouse.markup.text import escaped as escaped

PIPE_WIDTH = 160
NUMBERED = ("version", "tick", "offset", "partition", "pid")  # columns of numbers that name something


def say(text: str, *, stderr: bool = False, nl: bool = True) -> None:
    """Print a text, escaped."""
    typer.echo(escaped(text), err=stderr, nl=nl)


def clear() -> None:
    """Clear the terminal; where there is none, go on below."""
    console().clear()


def console(*, stderr: bool = False) -> Console:
    """Return a console for the stream as it is now: tests, and pipes, exchange it."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else PIPE_WIDTH)


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str | None = None,
    text: Callable[[Any], str] | None = None,
) -> None:
    """Print a table; numbers are aligned to the right. Nothing in a cell is markup.

    text: makes the text of a cell; by default counts are 1,234,567, and what names something, such as a tick, 1234567.
    """
    cells = [list(row) for row in rows]
    if title:  # as a line of its own: a table's title is broken at the table's width
        console().print(Text(escaped(f"\n{title}"), "bold"))
    shown = Table(caption=None if caption is None else Text(escaped(caption)), caption_justify="left")
    for place, name in enumerate(columns):
        values = [row[place] for row in cells if row[place] is not None]
        numbers = bool(values) and all(isinstance(value, int | float | Decimal) for value in values)
        shown.add_column(Text(escaped(name)), justify="right" if numbers else "left", overflow="fold")
    texts = [text or (number if name in NUMBERED else cell) for name in columns]
    for row in cells:
        shown.add_row(*[Text(escaped(of(value))) for of, value in zip(texts, row, strict=True)])
    console().print(shown)


def as_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value as one line of JSON. stderr: of what goes on meanwhile, so that stdout has the result alone."""
    line = json.dumps(in_json(value), default=plain, ensure_ascii=False)
    typer.echo(OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], line), err=stderr)


def as_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV: as they are for a program or a file, escaped on a terminal."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if v is None else v if isinstance(v, str | int | float) else plain(v) for v in row])
    # Not by echo, which takes colours out for a program.
    sys.stdout.write(escaped(text.getvalue()) if sys.stdout.isatty() else text.getvalue())
