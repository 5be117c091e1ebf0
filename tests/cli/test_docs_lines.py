"""Every `lakehouse ...` line in a block of the docs is one that the command takes: its names, options and values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import typer.main

from lakehouse.cli.main import app

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")), *sorted((PROJECT / "examples").glob("*.md"))]
# Fenced, or indented after an empty line.
CODE = re.compile(r"```.*?```|(?<=\n\n)(?: {4}[^\n]*\n+)+", re.DOTALL)
ENDS = ("&&", "|", ">", "&", ";", "2>")
# Shown as a form, or as a mistake.
NO_COMMANDS = ("lakehouse GROUP COMMAND TABLE --app app.py --plan", "lakehouse past backfill")


def lines(text: str) -> Iterator[str]:
    """The command lines in the blocks of a page, each whole: joined where a backslash or an open quote goes on."""
    for block in CODE.findall(text):
        begun = ""
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            begun += " " * bool(begun) + line.strip().removeprefix("$ ")
            if not begun.startswith("lakehouse ") or closed(begun):
                if begun.startswith("lakehouse ") and begun not in NO_COMMANDS:
                    yield begun
                begun = ""
        assert not begun, begun


def closed(line: str) -> bool:
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return False
    return True


def parse(line: str) -> None:
    """Read a command line as `lakehouse` does, and run nothing. Raises a usage error."""
    words = shlex.split(line, comments=True)[1:]
    words = words[: next((at for at, word in enumerate(words) if word in ENDS), len(words))]
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="lakehouse")
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
        context = typer.Context(command, info_name=name, parent=context) if hasattr(command, "commands") else context
    command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_lines_of_a_page_are_commands(page: Path) -> None:
    for line in lines(page.read_text()):
        try:
            parse(line)
        except Exception as error:
            pytest.fail(f"{line}\n{getattr(error, 'message', error)}")


def test_lines_are_found_and_wrong_ones_are_refused() -> None:
    assert sum(len(list(lines(page.read_text()))) for page in PAGES) > 140
    with pytest.raises(Exception, match="No such option: --plam"):
        parse("lakehouse repair backfill totals --app app.py --plam")
