"""`lakehouse repair correct`: late records of closed windows are taken in after all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from lakehouse.cli.repair.stages import say_stages
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
    refuse_reversed,
)
from lakehouse.errors import ConfigError


def correct(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that they were late for.")],
    app: AppOption = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Of this key only; the values of a key of several joined by commas, as in CSV."),
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="Of windows that begin at this time or later.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Of windows that begin before this time.")] = None,
    why: WhyOption = "",
    decided_by: DecidedByOption = None,
    plan: PlanOption = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Take in late records of windows, or of a join of streams, after all, as an intervention.

    The rows are refolded with them, for the affected keys only; a running job continues, and applies it. The changes
    are in the changelog, and are published. `lakehouse look late TABLE` lists the records.

    Example: lakehouse repair correct delays --key EWR --from 2013-07-04T00:00Z --to 2013-07-05T00:00Z
    """
    from lakehouse.cli.terminal import show
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    application = load_app(app_of(app, settings))
    lake_api = Lake(settings=settings)
    first_time, last_time = _parse_window_time(start, "--from"), _parse_window_time(end, "--to")
    refuse_reversed(start, end, first_time, last_time)
    repair_plan = lake_api.plan_correct(application.table(table), key=key, start=first_time, end=last_time)
    outcome = repair_plan.expected if plan else lake_api.carry_out(application, repair_plan, reason=why, by=decided_by)
    if json:
        json_outcome = {
            "table": table,
            "records": outcome.records,
            "out_of_reach": outcome.out_of_reach,
            "tick": outcome.tick,
        }
        show.print_json(json_outcome | {"dry_run": plan} | ({"stages": repair_plan.describe()} if plan else {}))
        return
    if plan:
        say_stages(repair_plan)
        show.say(f"{outcome.records:,} late records of {table} would be taken in. Nothing was changed.")
    else:
        show.say(f"{outcome.records:,} late records of {table} were taken in, at tick {outcome.tick}.")
    if outcome.out_of_reach:
        show.say(
            f"{outcome.out_of_reach:,} more stay out: they came too late for a join whose rows go through another "
            "join, or a merge, before they reach the table. Declare that join with a longer grace, and backfill the "
            "table."
        )


def _parse_window_time(time_text: str | None, option: str) -> datetime | None:
    if time_text is None:
        return None
    try:
        moment = datetime.fromisoformat(time_text)
    except ValueError as error:
        raise ConfigError(f"{option} {time_text!r}: expected a time such as 2013-07-04T18:00Z.") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
