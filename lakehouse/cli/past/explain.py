"""`lakehouse past explain`: the records behind one row, folded step by step to its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, say_erased_since
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.moments import position_finder
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.cli.terminal.waiting import show_bronze_reads
from lakehouse.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from lakehouse.run.explain.explanation import Explained


def explain(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A keyed table of the application.")],
    key: Annotated[str, typer.Option(help="Its key, without the window; several values joined by commas, as in CSV.")],
    app: AppOption = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As of this time, by --clock; or source:POSITION.")
    ] = None,
    clock: Annotated[
        str, typer.Option("--clock", help="event: the world at that time; commit: what the table held then.")
    ] = "event",
    version: Annotated[int | None, typer.Option("--version", min=0, help="As of this version of the table.")] = None,
    tick: Annotated[int | None, typer.Option("--tick", min=0, help="As of this tick.")] = None,
    offsets: Annotated[
        str | None, typer.Option("--offsets", metavar="TOPIC/PARTITION=OFFSET,...", help="Only records before these.")
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="START", help="Only the window that begins then.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, metavar="N", help=f"Only the last N records of each row; {ROWS_SHOWN} if left out."
        ),
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the records behind a row in order: where each is in Kafka, what it did, and the row after it.

    The last step is compared with the table itself.

    Example: lakehouse past explain visits --key N14228
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.plan.expression.schema import check_name
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.semantics.time.named_moment import moment_of

    check_name(table, "table")
    settings = lake_of(config, lake)
    app_path = app_of(app, settings)
    declared_table = load_app(app_path).table(table)
    if clock not in ("event", "commit"):
        raise ConfigError(f"--clock {clock!r}: expected event or commit.")
    past_moment = moment_of(
        at,
        clock="commit" if clock == "commit" else "event",
        version=version,
        tick=tick,
        offsets=offsets,
        find_source=position_finder(settings, app_path),
    )
    with show_bronze_reads() as show_read:
        explained_rows = Lake(settings=settings).explain(declared_table, key, past_moment, listen=show_read)
    say_erased_since(Layout(settings.lake.path), past_moment, table)
    explained_rows = _rows_in_window(explained_rows, table, window)
    step_limit = limit or (None if json else ROWS_SHOWN)
    for explained_row in explained_rows:
        if json:
            show.print_json(_explanation_as_json(explained_row, step_limit))
        else:
            _print_explanation(table, explained_row, step_limit)


def _rows_in_window(explained_rows: list[Explained], table: str, window_start: str | None) -> list[Explained]:
    from lakehouse.semantics.epoch_time import to_milliseconds
    from lakehouse.semantics.time.named_moment import time_ms

    if window_start is None:
        return explained_rows
    if "window_start" not in explained_rows[0].key:
        raise ConfigError(f"--window {window_start}: table {table!r} has no windows. Leave --window out.")
    start_ms = time_ms(window_start, "--window")
    if rows_of_window := [row for row in explained_rows if to_milliseconds(row.key["window_start"]) == start_ms]:
        return rows_of_window
    last_starts = ", ".join(show.moment(row.key["window_start"]) for row in explained_rows[-5:])
    raise NotFound(f"--window {window_start}: the key has no such window; the last ones begin at {last_starts}.")


def _print_explanation(table: str, explained_row: Explained, limit: int | None) -> None:
    from lakehouse.run.explain import explanation

    shown_steps = explained_row.steps[-limit:] if limit else explained_row.steps
    more_caption = f"the last {len(shown_steps):,} of {len(explained_row.steps):,} records; --limit shows more"
    step_cells = [step.cells() for step in shown_steps]
    show.print_table(
        f"{table}: {show.pairs(explained_row.key)}",
        explanation.COLUMNS,
        step_cells,
        caption=more_caption if len(shown_steps) < len(explained_row.steps) else None,
    )
    show.say(explained_row.verdict())


def _explanation_as_json(explained_row: Explained, limit: int | None) -> dict[str, Any]:
    shown_steps = explained_row.steps[-limit:] if limit else explained_row.steps
    place_names = ("topic", "partition", "offset")
    return {
        "key": explained_row.key,
        "records": len(explained_row.steps),
        "steps": [
            {
                **({name: getattr(step.record, name) for name in place_names} if step.record is not None else {}),
                "event_time_ms": step.event_ms,
                "tick": step.position.tick,
                "key": step.record_key,
                "value": step.record_value,
                "did": step.did,
                "row": step.row,
                **({"reason": step.reason} if step.reason else {}),
            }
            for step in shown_steps
        ],
        "found": explained_row.found,
        "agrees": explained_row.agrees,
        "note": explained_row.note,
    }
