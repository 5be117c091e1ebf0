"""The options of the commands that deploy, and the differences that they print."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.row_differences import print_differing_rows
from lakehouse.lake.layout import NEXT

if TYPE_CHECKING:
    from lakehouse.semantics.difference import Difference

NameOption = Annotated[
    str, typer.Option("--as", metavar="NAME", help="The name of the deployment, if you stage several.")
]
EXAMPLES = 3
ExamplesOption = Annotated[
    int, typer.Option("--limit", metavar="ROWS", min=0, help="How many of the rows that differ are shown of a table.")
]


def with_name(name: str) -> str:
    """Return the option of a deployment's name for a suggested command."""
    return "" if name == NEXT else f" --as {shlex.quote(name)}"


def differences_as_json(differing: Mapping[str, Difference]) -> dict[str, Any]:
    """Return the differences by table, with the first rows if any are wanted, for programs."""
    return {
        name: {**difference.counts(), **({"changes": difference.changes} if difference.changes else {})}
        for name, difference in differing.items()
    }


def say_differences(differing: Mapping[str, Difference]) -> None:
    """Print how many rows of each table differ, and the first of them, before and after."""
    rows = [(name, *(f"{count:,}" for count in item.counts().values())) for name, item in differing.items()]
    show.print_table("Rows that differ", ("table", "added", "removed", "changed"), rows)
    for name, difference in differing.items():
        if difference.changes:
            shown_rows, total = len(difference.changes), difference.keys
            rest = f"the first {shown_rows:,} of {total:,} rows; --limit shows more" if shown_rows < total else None
            show.say(f"\n{name}:")
            print_differing_rows(difference.changes, rest)
