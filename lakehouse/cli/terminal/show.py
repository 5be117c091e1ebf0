"""What a person reads: tables, human numbers, times in UTC. What a program reads: JSON.

All that the commands print goes through here (tests/test_structure.py): a record may hold what a terminal obeys, such
as an escape sequence that clears the screen, or one that turns the rest of the line around; it is shown escaped.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse.formats.plain import finite, plain

BYTES_SHOWN = 200
PIPE_WIDTH = 160
ABSENT = "-"
NUMBERED = ("version", "tick", "offset", "partition", "pid")  # columns of numbers that name something
# What is no text to look at: controls but for the end of a line and the tab, what changes the direction of writing or
# can't be seen (but for the joiners that scripts need), and halves of characters, which no stream takes.
OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)


def escaped(text: str) -> str:
    """Return a text with everything that a terminal would obey, or not show, as \\x1b or \\u202e."""
    return OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


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


def number(value: Any) -> str:
    """Return a number that names something, such as an offset, as it is typed; anything else as `cell` does."""
    return str(value) if isinstance(value, int) else cell(value)


def value(of: Any) -> str:
    """Return a value of a row as it is: 1999 and no comma, null, true; times in UTC, text where bytes are text."""
    match of:
        case None:
            return "null"
        case bool():
            return "true" if of else "false"
        case int():
            return str(of)
    return cell(of)


def pairs(values: Mapping[str, Any] | None) -> str | None:
    """Return columns and their values in one line: n=3, city=Rome. None for no row."""
    return None if values is None else ", ".join(f"{name}={value(of)}" for name, of in values.items())


def cell(value: Any) -> str:
    """Return a fact as a person reads it: 1,234,567, UTC times, text where bytes are text. Row values: `value`."""
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return moment(value, "milliseconds" if value.microsecond else "seconds")
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "backslashreplace")[:BYTES_SHOWN]
        case Mapping() | list() | tuple():
            return _nested(value)
    return str(value)


def _nested(value: Any) -> str:
    """Return JSON in which a decimal is a number, with all its digits."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(str(n), ensure_ascii=False)}: {_nested(v)}' for n, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    return json.dumps(_finite(value), default=plain, ensure_ascii=False)


def moment(value: datetime | int | None, precision: str = "seconds") -> str:
    """Return a moment, or milliseconds since the epoch, as 2013-06-01 12:30:00Z, or with milliseconds."""
    if value is None:
        return ABSENT
    if isinstance(value, int):
        value = datetime.fromtimestamp(value / 1000, UTC)
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value.replace(tzinfo=None).isoformat(" ", precision) + "Z"


def as_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value as one line of JSON. stderr: of what goes on meanwhile, so that stdout has the result alone."""
    line = json.dumps(_finite(value), default=plain, ensure_ascii=False)
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


def _finite(value: Any) -> Any:
    """NaN and the infinities are not JSON, and json.dumps calls no hook for them."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
