"""`lakehouse test backtest`: the same records under two declarations of a table, compared."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.repair.backfill import progress
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of

SHOWN = ("key", "before", "after")


def backtest(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table that both applications declare.")],
    other: Annotated[str, typer.Option("--with", metavar="OTHER", help="The other application: a file or a module.")],
    app: AppOption = None,
    to: Annotated[int | None, typer.Option("--to", min=0, help="Up to this tick; the last one if left out.")] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Fold the same records under two declarations (another grace, another window), and compare what they make.

    Both are built beside the live tables and removed again; the live table is not touched.

    Example: lakehouse test backtest hourly --with longer_grace.py
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    app = app_of(app, settings)
    first, second = load_app(app).table(table), load_app(other).table(table)
    one = Lake(settings=settings)
    with progress(as_json=json) as listen:
        found = one.backtest(first, second, to=to, listen=listen)
    of = found.differing
    some = [(one["key"], one["before"], one["after"]) for one in of.changes]
    contents = {app: found.first, other: found.second}
    if json:
        sides = [{"app": name, "rows": one.rows, "hash": str(one.hash)} for name, one in contents.items()]
        show.as_json(
            {
                "table": table, "tick": found.tick, "equal": of.equal, "contents": sides,
                **of.counts(), "examples": [dict(zip(SHOWN, one, strict=True)) for one in some],
            }
        )  # fmt: skip
        return
    rows = [(name, one.rows, str(one.hash)) for name, one in contents.items()]
    show.table(f"{table} at tick {found.tick:,}", ("declared in", "rows", "hash"), rows)
    show.say(
        "They make the same rows." if of.equal else
        f"{other} has {of.added:,} keys more, {of.removed:,} fewer, and {of.changed:,} with another row."
    )  # fmt: skip
    if some:
        show.table("Some of them", ("key", app, other), some)
