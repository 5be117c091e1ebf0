"""`lakehouse deploy promote` and `back`: all tables of a deployment become what is declared, at one tick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.deploy.options import NameOption, differences_as_json, say_differences
from lakehouse.cli.repair.backfill import build_listener
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import (
    AppOption,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    WhyOption,
    app_of,
    lake_of,
    with_app,
)
from lakehouse.lake.layout import NEXT

# Staged under a name of its own: what somebody staged to promote stays.
BACK = "back"


def promote(
    app: AppOption = None,
    name: NameOption = NEXT,
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="DIGEST", help="Refuse other declarations than `stage` said this digest of."),
    ] = None,
    why: WhyOption = "",
    decided_by: DecidedByOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Let all tables that the new logic touches become what is declared, at one tick. What is not staged is built.

    Stop the job with the old logic before, and start it with the new one afterwards. A read at any tick finds the old
    rows in all tables, or the new ones in all.

    --expect makes sure that what is promoted is what somebody looked at, although the application's file may change.

    Example: lakehouse deploy promote --app app.py --why "prices in cents"
    """
    _swap(app, name, why, decided_by, config, lake, expected_digest=expect, json=json, back=False)


def back(
    app: AppOption = None,
    why: WhyOption = "",
    decided_by: DecidedByOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Take the last deployment back: all of its tables, at one tick, with the records that came since.

    APP is the application from before the deployment, such as by `git show REVISION:app.py > before.py`.

    Example: lakehouse deploy back --app before.py --why "prices were in cents already"
    """
    _swap(app, BACK, why, decided_by, config, lake, json=json, back=True)


def _swap(
    app: str | None,
    name: str,
    why: str,
    decided_by: str | None,
    config: Path | None,
    lake: str | None,
    *,
    expected_digest: str | None = None,
    json: bool,
    back: bool,
) -> None:
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    application, lake_api = load_app(app_of(app, settings)), Lake(settings=settings)
    outcome = lake_api.deploy(
        application,
        name,
        back=back,
        expected_digest=expected_digest,
        reason=why,
        by=decided_by,
        listen=build_listener(as_json=json),
    )
    if json:
        show.print_json(
            {
                "name": name,
                "tick": outcome.tick,
                "before": outcome.before,
                "tables": differences_as_json(outcome.differing),
            }
        )
        return
    if outcome.tick is None:
        show.say("Nothing to deploy: no table's logic is new.")
        return
    say_differences(outcome.differing)
    show.say(
        f"\nAt tick {outcome.tick:,} all of these tables are as declared now; at tick {outcome.before:,} all are as "
        f"before. Start the job with this application: lakehouse run{with_app(app)}"
    )
    if not back:
        show.say("The way back: lakehouse deploy back, with the application from before.")
