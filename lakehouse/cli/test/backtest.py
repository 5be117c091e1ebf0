"""`lakehouse test backtest`: the same records under two declarations of a table, compared."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.repair.backfill import build_listener
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
    first_table, second_table = load_app(app).table(table), load_app(other).table(table)
    lake_api = Lake(settings=settings)
    comparison = lake_api.backtest(first_table, second_table, to=to, listen=build_listener(as_json=json))
    differences = comparison.differing
    example_rows = [(change["key"], change["before"], change["after"]) for change in differences.changes]
    contents_by_app = {app: comparison.first, other: comparison.second}
    if json:
        json_sides = [
            {"app": name, "rows": content.rows, "hash": str(content.hash)} for name, content in contents_by_app.items()
        ]
        show.print_json(
            {
                "table": table, "tick": comparison.tick, "equal": differences.equal, "contents": json_sides,
                **differences.counts(), "examples": [dict(zip(SHOWN, row, strict=True)) for row in example_rows],
            }
        )  # fmt: skip
        return
    content_rows = [(name, content.rows, str(content.hash)) for name, content in contents_by_app.items()]
    show.print_table(f"{table} at tick {comparison.tick:,}", ("declared in", "rows", "hash"), content_rows)
    show.say(
        "They make the same rows." if differences.equal else
        f"{other} has {differences.added:,} keys more, {differences.removed:,} fewer, and {differences.changed:,} "
        "with another row."
    )  # fmt: skip
    if example_rows:
        show.print_table("Some of them", ("key", app, other), example_rows)
