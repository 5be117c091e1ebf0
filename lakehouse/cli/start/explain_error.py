"""The command explain-error: what a kind of error means, and the ways out."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.error_pages import page_of, whole_page


def explain_error(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="Such as DataLoss; all of them if left out.")
    ] = None,
) -> None:
    """Explain a kind of error: what it means, what its messages say, and what to do then.

    At a terminal an error ends with the line to type. Without a kind, all of them are printed (docs/errors.md).

    Example: lakehouse explain-error DataLoss
    """
    show.say(whole_page() if kind is None else page_of(kind), nl=False)
