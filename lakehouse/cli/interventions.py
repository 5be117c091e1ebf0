"""`lakehouse interventions`: what was decided by hand; read without Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakehouse.cli import show
from lakehouse.cli.options import ConfigOption, JsonOption, LakeOption, settings_of

LONG = ("declaration",)  # the table carries it as well


def interventions(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="In this table only.")] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """List what was decided by hand, the newest first: backfills, reverts, swaps, late and fixed records.

    Each takes effect at a tick of its own; the tick before it is the table without it.

    Example: lakehouse interventions totals
    """
    from lakehouse.delta import reader
    from lakehouse.delta.layout import Layout
    from lakehouse.plan.schema import check_name

    if table is not None:
        check_name(table, "table")
    layout = Layout(settings_of(config, lake).lake.path)
    found = [row for row in reader.interventions(layout) if table in (None, row["table"])]
    if table is not None and not found:
        reader.facts(layout, "silver", table)  # says so if there is no such table
    rows = [{**row, "details": _short(row["details"])} for row in found]
    if json:
        for row in rows:
            show.as_json(row)
    elif not rows:
        typer.echo("Nothing was decided by hand.")
    else:
        names = ("at", "table", "kind", "decided_at", "reason", "details")
        show.table(
            "Interventions", ("tick", *names[1:]), [tuple(row[name] for name in names) for row in rows]
        )  # fmt: skip


def _short(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None and name not in LONG}
