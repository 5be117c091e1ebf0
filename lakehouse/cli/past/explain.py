"""`lakehouse past explain`: the records behind one row, folded step by step to its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from lakehouse.run.explain.explanation import Explained


def explain(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A keyed table of the application.")],
    key: Annotated[str, typer.Option(help="Its key, without the window; several values joined by commas, as in CSV.")],
    app: AppOption = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="As of this time, by --clock.")] = None,
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
    from lakehouse.plan.schema import check_name
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.semantics.moment import moment_of

    check_name(table, "table")
    settings = lake_of(config, lake)
    of = load_app(app_of(app, settings)).table(table)
    if clock not in ("event", "commit"):
        raise ConfigError(f"--clock {clock!r}: expected event or commit.")
    meant = moment_of(at, clock="commit" if clock == "commit" else "event", version=version, tick=tick, offsets=offsets)
    with show.console(stderr=True).status("reading bronze") as status:
        found = Lake(settings=settings).explain(
            of, key, meant, listen=lambda records: status.update(f"{records:,} records of bronze read")
        )
    found = _in_window(found, table, window)
    cut = limit or (None if json else ROWS_SHOWN)
    for row in found:
        if json:
            show.as_json(_as_json(row, cut))
        else:
            _print(table, row, cut)


def _in_window(found: list[Explained], table: str, start: str | None) -> list[Explained]:
    from lakehouse.semantics.moment import milliseconds, time_ms

    if start is None:
        return found
    if "window_start" not in found[0].key:
        raise ConfigError(f"--window {start}: table {table!r} has no windows. Leave --window out.")
    wanted = time_ms(start, "--window")
    if chosen := [row for row in found if milliseconds(row.key["window_start"]) == wanted]:
        return chosen
    starts = ", ".join(show.moment(row.key["window_start"]) for row in found[-5:])
    raise NotFound(f"--window {start}: the key has no such window; the last ones begin at {starts}.")


def _print(table: str, row: Explained, limit: int | None) -> None:
    from lakehouse.run.explain import explanation

    steps = row.steps[-limit:] if limit else row.steps
    more = f"the last {len(steps):,} of {len(row.steps):,} records; --limit shows more"
    lines = [step.cells() for step in steps]
    show.table(
        f"{table}: {show.pairs(row.key)}",
        explanation.COLUMNS,
        lines,
        caption=more if len(steps) < len(row.steps) else None,
    )
    show.say(row.verdict())


def _as_json(row: Explained, limit: int | None) -> dict[str, Any]:
    steps = row.steps[-limit:] if limit else row.steps
    names = ("topic", "partition", "offset")
    return {
        "key": row.key,
        "records": len(row.steps),
        "steps": [
            {
                **({name: getattr(s.record, name) for name in names} if s.record is not None else {}),
                "event_time_ms": s.event_ms, "tick": s.position.tick, "key": s.record_key, "value": s.record_value,
                "did": s.did, "row": s.row, **({"reason": s.reason} if s.reason else {}),
            }
            for s in steps
        ],
        "found": row.found, "agrees": row.agrees, "note": row.note,
    }  # fmt: skip
