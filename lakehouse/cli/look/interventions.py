"""`lakehouse look interventions`: what was decided by hand; read without Spark."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, shown
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of

LONG = ("declaration",)  # the table carries it as well


def interventions(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="In this table only.")] = None,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """List who decided what, and why, the newest first: backfills, reverts, swaps, late and fixed records.

    Each takes effect at a tick of its own; the tick before it is the table without it.

    Example: lakehouse look interventions totals
    """
    from lakehouse.lake import intervention_log, reader
    from lakehouse.lake.layout import Layout
    from lakehouse.plan.schema import check_name

    if table is not None:
        check_name(table, "table")
    layout = Layout(lake_of(config, lake).lake.path)
    cut = limit or (None if json else ROWS_SHOWN + 1)
    found = ({**row, "details": _short(row["details"])} for row in intervention_log.logged(layout, table, cut))
    first = next(found, None)
    if table is not None and first is None:
        reader.facts(layout, "silver", table)  # says so if there is no such table
    if json:
        for row in () if first is None else chain([first], found):
            show.as_json(row)
        return
    rows = [] if first is None else [first, *found]
    if not rows:
        show.say("No interventions.")
    else:
        names = ("at", "table", "kind", "decided_at", "decided_by", "reason", "details")
        values = [tuple(row[name] for name in names) for row in rows]
        columns = ("tick", *names[1:])
        shown(values, limit, lambda some, caption: show.table("Interventions", columns, some, caption=caption))


def _short(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None and name not in LONG}
