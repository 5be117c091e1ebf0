"""`lakehouse deploy stage`, `show` and `discard`: tables built beside the live ones, and how they differ."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.deploy.options import (
    EXAMPLES,
    ExamplesOption,
    NameOption,
    differences_as_json,
    say_differences,
    with_name,
)
from lakehouse.cli.repair.backfill import build_listener
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of, with_app
from lakehouse.errors import ConfigError
from lakehouse.lake.layout import NEXT
from lakehouse.markup.quantity import quantity


def stage(
    app: AppOption = None,
    name: NameOption = NEXT,
    limit: ExamplesOption = EXAMPLES,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Build all tables that the new logic touches beside the live ones, from bronze, and say how they differ.

    The live tables, and the job that keeps them, go on. Run it again to take in the records that came meanwhile, or to
    continue after a kill.

    Example: lakehouse deploy stage --app app.py
    """
    from lakehouse.plan.evolution.change import declarations_digest
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    application = load_app(app_of(app, settings))
    plan = Lake(settings=settings).plan_deployment(
        application, name, examples=limit, listen=build_listener(as_json=json)
    )
    digest = declarations_digest(application.tables)
    if json:
        outcome = plan.expected
        stages = plan.describe()
        show.print_json(
            {
                "name": name,
                "digest": digest,
                "records": outcome.records,
                "tables": differences_as_json(outcome.differing),
                "stages": stages,
            }
        )
        return
    if not plan.stages:
        show.say("Nothing to deploy: no table's logic is new.")
        return
    say_differences(plan.expected.differing)
    show.say(
        f"\n{quantity(plan.expected.records, 'record')} of bronze read. Nothing was changed. "
        f"Next: lakehouse deploy promote{with_app(app)}{with_name(name)} --expect {digest}"
    )


def show_staged(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="These tables only.", show_default=False)
    ] = None,
    app: AppOption = None,
    name: NameOption = NEXT,
    limit: ExamplesOption = 10,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show how the tables that were staged differ from the live ones: rows before and after. Nothing is built.

    Example: lakehouse deploy show totals --limit 50
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    differing = Lake(settings=settings).compare_deployment(load_app(app_of(app, settings)), name, examples=limit)
    if unknown := sorted(set(tables or ()) - differing.keys()):
        raise ConfigError(
            f"deploy show: found {', '.join(unknown)}; expected tables of the deployment: {', '.join(differing)}."
        )
    differing = {table: item for table, item in differing.items() if not tables or table in tables}
    if json:
        show.print_json({"name": name, "tables": differences_as_json(differing)})
    else:
        say_differences(differing)


def discard(
    app: AppOption = None,
    name: NameOption = NEXT,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Remove what was staged. The live tables stay as they are.

    Example: lakehouse deploy discard
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    discarded = Lake(settings=settings).discard_deployment(load_app(app_of(app, settings)), name)
    if json:
        show.print_json({"name": name, "discarded": discarded})
    else:
        show.say(f"{name}: {'what was staged was removed' if discarded else 'nothing was staged'}.")
