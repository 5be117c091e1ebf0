"""`lakehouse repair revert`: the live table goes back to a moment, and its job goes on from there."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.repair.backfill import EXAMPLES, ExamplesOption, change_as_json, say_what_changed
from lakehouse.cli.repair.stages import say_stages
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    moment_of_options,
    position_finder,
    required_moment,
)
from lakehouse.cli.terminal.options import (
    AppOption,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    PlanOption,
    WhyOption,
    app_of,
    lake_of,
)


def revert(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that goes back.")],
    app: AppOption = None,
    version: VersionOption = None,
    tick: TickOption = None,
    at: AtOption = None,
    clock: ClockOption = None,
    offsets: OffsetsOption = None,
    why: WhyOption = "",
    decided_by: DecidedByOption = None,
    plan: PlanOption = False,
    limit: ExamplesOption = EXAMPLES,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Take a live table back to what it was at a moment; what comes later is taken in on top of that.

    Its job goes on. The rows that differ are merged in, at a tick of their own; only they reach the changelog.

    Example: lakehouse repair revert totals --version 41 --why "a wrong release"
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    app_path = app_of(app, settings)
    find_source = position_finder(settings, app_path)
    past_moment = required_moment(moment_of_options(at, clock, version, tick, offsets, find_source))
    application, lake_api = load_app(app_path), Lake(settings=settings)
    repair_plan = lake_api.plan_revert(application.table(table), past_moment, examples=limit if plan else 0)
    outcome = repair_plan.expected if plan else lake_api.carry_out(application, repair_plan, reason=why, by=decided_by)
    if json:
        show.print_json(
            {"to": str(past_moment), **change_as_json(application.table(table), outcome, plan=plan)}
            | ({"stages": repair_plan.describe()} if plan else {})
        )
    else:
        if plan:
            say_stages(repair_plan)
        say_what_changed(app, application.table(table), outcome)
