"""`lakehouse repair upkeep`: OPTIMIZE, VACUUM and anchors now, where no job does them between its batches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, PlanOption, app_of, lake_of


def upkeep(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="These tables; all, and bronze, if left out.")
    ] = None,
    app: AppOption = None,
    plan: PlanOption = False,
    keep_at_least: Annotated[
        str | None,
        typer.Option(
            "--keep-at-least", metavar="TIME", help="Keep versions at least this long, if keep_versions is less."
        ),
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Compact small files, remove old versions, make anchors; a running job does it by itself.

    Example: lakehouse repair upkeep totals --plan
    """
    from lakehouse.cli.terminal import show
    from lakehouse.lake.layout import Layout
    from lakehouse.run.job.upkeeping import at_least, by_command
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.open_lake import OpenLake

    settings = lake_of(config, lake)
    application = load_app(app_of(app, settings))
    for name in tables or ():
        application.table(name)  # said before Spark starts
    used = Lake(settings=settings)
    layout = Layout(used.settings.lake.path)
    policy = at_least(used.settings.upkeep, keep_at_least)
    done = by_command(OpenLake(used.spark, layout), application, policy, tables or (), dry_run=plan)
    if json:
        for one in done:
            show.as_json({**asdict(one), "dry_run": plan})
        return
    columns = ("table", "files", "then", "bytes", "then", "anchor", "kept")
    rows = [
        (
            one.name, one.files_before, None if plan and one.optimized else one.files_after,
            one.bytes_before, one.bytes_after, one.anchor, "; ".join(one.kept),
        )
        for one in done
    ]  # fmt: skip
    show.table("Upkeep", columns, rows)
    if plan:
        names = ", ".join(one.name for one in done if one.optimized) or "none"
        show.say(f"Nothing was changed. OPTIMIZE would be run on: {names}.")
