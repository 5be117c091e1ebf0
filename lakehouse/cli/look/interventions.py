"""`lakehouse look interventions`: what was decided by hand; read without Spark."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, kept, shown
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

    layout = Layout(lake_of(config, lake).lake.path)
    if table is not None:
        table = kept(table, layout)
    cut = limit or (None if json else ROWS_SHOWN + 1)
    found = intervention_log.logged(layout, table, cut)
    first = next(found, None)
    if table is not None and first is None:
        reader.facts(layout, "silver", table)  # says so if there is no such table
    if json:
        for row in () if first is None else chain([first], found):
            show.as_json({**row, "details": _short(row["details"])})
        return
    rows = [] if first is None else [first, *found]
    if not rows:
        show.say("No interventions.")
    else:
        names = ("at", "table", "kind", "decided_at", "decided_by", "reason")
        values = [(*(row[name] for name in names), of_what(row["kind"], row["details"])) for row in rows]
        columns = ("tick", *names[1:], "of what")
        shown(values, limit, lambda some, caption: show.table("Interventions", columns, some, caption=caption))


def _short(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None and name not in LONG}


def of_what(kind: str, details: dict[str, Any]) -> str:
    """Return the details of an intervention in words: the moment of a revert, the range of a backfill."""
    if kind == "swap":
        return "all rows, under another declaration" if details.get("changed") else "all rows"
    if kind == "fixed":
        return f"records of stream {details.get('stream')}"
    if kind == "revert" and details.get("version") is not None:
        return f"to version {details['version']}"
    said = [*_times(details), *_offsets(details.get("offsets") or {})]
    if kind == "revert":
        return f"to {', '.join(said) or 'tick ' + str(details.get('tick'))}"
    return ", ".join(said)


def _times(details: dict[str, Any]) -> list[str]:
    if details.get("event_ms") is not None:
        return [f"event time {show.moment(details['event_ms'], 'milliseconds')}"]
    first, last = (details.get(name) for name in ("first_ms", "last_ms"))
    since = [] if first is None else [f"event times from {show.moment(first, 'milliseconds')}"]
    return since + ([] if last is None else [f"event times up to {show.moment(last, 'milliseconds')}"])


def _offsets(offsets: dict[str, Any]) -> list[str]:
    """A backfill's have the first and the last one, a revert's the first that does not count."""
    return [
        f"{topic}/{p}={'..'.join(map(str, of)) if isinstance(of, list) else of}"
        for topic, parts in offsets.items()
        for p, of in parts.items()
    ]
