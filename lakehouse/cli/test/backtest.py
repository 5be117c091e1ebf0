"""`lakehouse test backtest`: the same records under two declarations of a table, compared."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.repair.backfill import progress
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppArgument, ConfigOption, JsonOption, LakeOption, settings_of


def backtest(
    app: AppArgument,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table that both applications declare.")],
    other: Annotated[str, typer.Option("--with", metavar="OTHER", help="The other application: a file or a module.")],
    to: Annotated[int | None, typer.Option("--to", min=0, help="Up to this tick; the last one if left out.")] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Fold the same records under two declarations (another grace, another window), and compare what they make.

    Both are built beside the live tables and removed again; the live table is not touched.

    Example: lakehouse test backtest app.py hourly --with longer_grace.py
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    first, second = load_app(app).table(table), load_app(other).table(table)
    one = Lake(settings=settings_of(config, lake))
    with progress(as_json=json) as listen:
        found = one.backtest(first, second, to=to, listen=listen)
    contents = {app: found.first, other: found.second}
    if json:
        sides = [{"app": name, "rows": of.rows, "hash": str(of.hash)} for name, of in contents.items()]
        show.as_json(
            {
                "table": table, "tick": found.tick, "equal": found.differing.equal, "contents": sides,
                **asdict(found.differing), "examples": found.examples,
            }
        )  # fmt: skip
        return
    rows = [(name, of.rows, str(of.hash)) for name, of in contents.items()]
    show.table(f"{table} at tick {found.tick:,}", ("declared in", "rows", "hash"), rows)
    of = found.differing
    show.say(
        "They make the same." if of.equal else
        f"{other} has {of.added:,} keys more, {of.removed:,} less, and {of.changed:,} with another row."
    )  # fmt: skip
    if found.examples:
        show.table("Some of them", ("key", app, other), [tuple(example.values()) for example in found.examples])
