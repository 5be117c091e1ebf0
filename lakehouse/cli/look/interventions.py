"""`lakehouse look interventions`: the decisions made by hand; read without Spark."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, print_first_rows, stored_table_name
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of

LONG = ("declaration", "before")  # the table carries it as well


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
        table = stored_table_name(table, layout)
    row_limit = limit or (None if json else ROWS_SHOWN + 1)
    newer_first = intervention_log.read_interventions(layout, table, row_limit)
    first_row = next(newer_first, None)
    if table is not None and first_row is None:
        reader.read_table_facts(layout, "silver", table)  # fails if there is no such table
    if json:
        for row in () if first_row is None else chain([first_row], newer_first):
            details = _shorten_details(row["details"])
            stages = {"stages": details.pop("stages")} if "stages" in details else {}
            show.print_json({**row, "details": details, **stages})
        return
    all_rows = [] if first_row is None else [first_row, *newer_first]
    if not all_rows:
        show.say("No interventions.")
    else:
        column_names = ("at", "table", "kind", "decided_at", "decided_by", "reason")
        table_rows = [
            (*(row[name] for name in column_names), describe_details(row["kind"], row["details"])) for row in all_rows
        ]
        column_titles = ("tick", *column_names[1:], "of what")
        print_first_rows(
            table_rows,
            limit,
            lambda first_rows, caption: show.print_table("Interventions", column_titles, first_rows, caption=caption),
        )


def _shorten_details(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None and name not in LONG}


def describe_details(kind: str, details: dict[str, Any]) -> str:
    """Return the details of an intervention in words: the moment of a revert, the range of a backfill."""
    if kind == "swap":
        if details.get("erasure"):
            return "all rows, without erased records"
        return "all rows, under another declaration" if details.get("changed") else "all rows"
    if kind == "fixed":
        return f"records of stream {details.get('stream')}"
    if kind == "revert" and details.get("version") is not None:
        return f"to version {details['version']}"
    detail_texts = [*_describe_times(details), *_describe_offsets(details.get("offsets") or {})]
    if kind == "revert":
        return f"to {', '.join(detail_texts) or 'tick ' + str(details.get('tick'))}"
    return ", ".join(detail_texts)


def _describe_times(details: dict[str, Any]) -> list[str]:
    if details.get("event_ms") is not None:
        return [f"event time {show.moment(details['event_ms'], 'milliseconds')}"]
    first_ms, last_ms = (details.get(name) for name in ("first_ms", "last_ms"))
    since = [] if first_ms is None else [f"event times from {show.moment(first_ms, 'milliseconds')}"]
    return since + ([] if last_ms is None else [f"event times up to {show.moment(last_ms, 'milliseconds')}"])


def _describe_offsets(offsets: dict[str, Any]) -> list[str]:
    """Return offsets in words: a backfill has the first and the last, a revert the first that does not count."""
    return [
        f"{topic}/{partition}={'..'.join(map(str, offset_range)) if isinstance(offset_range, list) else offset_range}"
        for topic, parts in offsets.items()
        for partition, offset_range in parts.items()
    ]
