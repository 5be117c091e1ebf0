"""`lakehouse repair revert`: the live table goes back to a moment, and its job goes on from there."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.repair.backfill import as_object, say
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    asked_moment,
    required,
)
from lakehouse.cli.terminal.options import (
    AppArgument,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    PlanOption,
    ReasonOption,
    lake_of,
)


def revert(
    app: AppArgument,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that goes back.")],
    version: VersionOption = None,
    tick: TickOption = None,
    at: AtOption = None,
    clock: ClockOption = None,
    offsets: OffsetsOption = None,
    reason: ReasonOption = "",
    decided_by: DecidedByOption = None,
    plan: PlanOption = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Take a live table back to what it was at a moment; what comes later is taken in on top of that.

    Its job goes on. The rows that differ are merged in, at a tick of their own; only they reach the changelog.

    Example: lakehouse repair revert app.py totals --version 41 --reason "a wrong release"
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    application, moment = load_app(app), required(asked_moment(at, clock, version, tick, offsets))
    one = Lake(settings=lake_of(config, lake))
    done = one.revert(application, application.table(table), moment, reason=reason, by=decided_by, dry_run=plan)
    if json:
        show.as_json({"to": str(moment), **as_object(table, done, plan=plan)})
    else:
        say(app, table, done, plan=plan)
