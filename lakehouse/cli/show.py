"""What a person reads: tables, human numbers, times in UTC. What a program reads: JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
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


def console(*, stderr: bool = False) -> Console:
    """Return a console for the stream as it is now: tests, and pipes, exchange it."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else PIPE_WIDTH)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str | None = None) -> None:
    """Print a table; numbers stand to the right. Nothing in a cell is taken as markup."""
    cells = [list(row) for row in rows]
    if title:  # as a line of its own: a table's title is broken at the table's width
        console().print(Text(f"\n{title}", "bold"))
    shown = Table(caption=caption, caption_justify="left")
    for number, name in enumerate(columns):
        values = [row[number] for row in cells if row[number] is not None]
        numbers = bool(values) and all(isinstance(value, int | float | Decimal) for value in values)
        shown.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        shown.add_row(*[Text(cell(value)) for value in row])
    console().print(shown)


def cell(value: Any) -> str:
    """Return a value as a person reads it: 1,234,567, UTC times, text where bytes are text."""
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
            return json.dumps(value, default=plain, ensure_ascii=False)
    return str(value)


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
    typer.echo(json.dumps(_finite(value), default=plain, ensure_ascii=False), err=stderr)


def _finite(value: Any) -> Any:
    """NaN and the infinities are no JSON, and json.dumps asks nobody about them."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
