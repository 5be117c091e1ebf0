"""`lakehouse past blame` and `bisect`: which record last set a row, and at which version a condition became false."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, layout_of, shown
from lakehouse.cli.past.diff import KeyedArgument, keyed
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    FoldOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    asked_moment,
    fold_of,
)
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of


def blame(
    table: KeyedArgument,
    key: Annotated[str, typer.Option(help="The key; the values of a key of several joined by commas, as in CSV.")],
    at: AtOption = None,
    clock: ClockOption = None,
    version: VersionOption = None,
    tick: TickOption = None,
    offsets: OffsetsOption = None,
    app: FoldOption = None,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the row of a key, and the record of bronze that last set it; of a windowed table a row for each window.

    Example: lakehouse past blame visits --key N14228
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.moment.rows_at import snapshot
    from lakehouse.lake.row import blame as blaming

    settings, moment = lake_of(config, lake), asked_moment(at, clock, version, tick, offsets)
    layout = Layout(settings.lake.path)
    name = keyed(table, layout)
    there = snapshot(layout, name, moment, fold_of(settings, app))
    found = blaming.blame(there, key, limit=limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for row in found:
            show.as_json(row)
    elif not found:
        show.say(f"{table} has no row of key {key} at {moment or 'its newest version'}.")
    else:
        columns = ("key", "value", "record", "timestamp", "its key", "its value")
        rows = [(show.pairs(row["key"]), show.pairs(row["value"]), *_record(row)) for row in found]
        shown(rows, limit, lambda some, caption: show.table(table, columns, some, caption=caption))


def bisect(
    table: KeyedArgument,
    condition: Annotated[
        str, typer.Argument(metavar="CONDITION", help="True or false, in DuckDB's SQL; it may have aggregates.")
    ],
    good: Annotated[
        int | None, typer.Option(min=0, help="A version where it is true; the oldest one if left out.")
    ] = None,
    bad: Annotated[
        int | None, typer.Option(min=0, help="A later one where it is not; the newest one if left out.")
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Find the first version of a table where a condition is no longer true, by halves.

    Without aggregates it must be true of every row. Null is not true.

    Example: lakehouse past bisect visits "count(*) FILTER (flights < 0) = 0"
    """
    from lakehouse.lake.row import bisection

    layout = layout_of(config, lake)
    name = keyed(table, layout)
    found = bisection.bisect(layout, name, condition, good, bad)
    version = found.version
    if json:
        show.as_json(
            {
                "version": version.version, "time_ms": version.time_ms, "tick": version.tick,
                "from_tick": version.from_tick, "last_true": found.before, "tried": len(found.tried),
            }
        )  # fmt: skip
        return
    when = show.moment(version.time_ms, "milliseconds")
    show.say(
        f"{version}, committed {when}, is the first where it is not true; it is at version {found.before}.\n"
        f"Versions tried: {len(found.tried)}. What it changed: lakehouse past show {table} {version.version}"
    )


def _record(row: dict[str, Any]) -> tuple[Any, ...]:
    """The record's columns; of one that bronze does not have only its place."""
    record, place = row["record"], row["position"] or {}
    where = f"{place['topic']}/{place['partition']}@{place['offset']}" if place.get("topic") else None
    if record is None:
        return where, "not in this lake's bronze", None, None
    return where, record["timestamp"], record["key"], record["value"]
