"""`lakehouse past blame` and `bisect`: the record that last set a row, and the version that made a condition false."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, layout_of, print_first_rows, say_erased_since
from lakehouse.cli.past.diff import KeyedArgument, keyed_table_name
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    FoldOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    fold_of,
    moment_of_options,
    position_finder,
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

    settings = lake_of(config, lake)
    past_moment = moment_of_options(at, clock, version, tick, offsets, position_finder(settings, app))
    layout = Layout(settings.lake.path)
    table_name = keyed_table_name(table, layout)
    past_snapshot = snapshot(layout, table_name, past_moment, fold_of(settings, app))
    say_erased_since(layout, past_moment, table_name)
    blamed_rows = blaming.blame(past_snapshot, key, limit=limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for row in blamed_rows:
            show.print_json(row)
    elif not blamed_rows:
        show.say(f"{table} has no row of key {key!r} at {past_moment or 'its newest version'}.")
    else:
        columns = ("key", "value", "record", "timestamp", "its key", "its value")
        table_rows = [(show.pairs(row["key"]), show.pairs(row["value"]), *_record_columns(row)) for row in blamed_rows]
        print_first_rows(
            table_rows, limit, lambda first_rows, caption: show.print_table(table, columns, first_rows, caption=caption)
        )


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
    table_name = keyed_table_name(table, layout)
    bisection_result = bisection.bisect(layout, table_name, condition, good, bad)
    first_false = bisection_result.version
    if json:
        show.print_json(
            {
                "version": first_false.version,
                "time_ms": first_false.time_ms,
                "tick": first_false.tick,
                "from_tick": first_false.from_tick,
                "last_true": bisection_result.before,
                "tried": len(bisection_result.tried),
            }
        )
        return
    commit_time = show.moment(first_false.time_ms, "milliseconds")
    show.say(
        f"{first_false}, committed {commit_time}, is the first where it is not true; it is at version "
        f"{bisection_result.before}.\n"
        f"Versions tried: {len(bisection_result.tried)}. What it changed: lakehouse past show {table} "
        f"{first_false.version}"
    )


def _record_columns(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the record's columns; for a record that bronze does not have only its place."""
    record, record_place = row["record"], row["position"] or {}
    place_text = (
        f"{record_place['topic']}/{record_place['partition']}@{record_place['offset']}"
        if record_place.get("topic")
        else None
    )
    if record is None:
        return place_text, "not in this lake's bronze", None, None
    return place_text, record["timestamp"], record["key"], record["value"]
