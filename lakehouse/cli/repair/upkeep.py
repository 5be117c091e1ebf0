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
    from lakehouse.run.job.upkeep import keep_versions_at_least, plan_by_command, upkeep_by_command
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.changelog.upstream import open_lake

    settings = lake_of(config, lake)
    application = load_app(app_of(app, settings))
    for name in tables or ():
        application.table(name)  # refuse a name before Spark starts
    lake_api = Lake(settings=settings)
    layout = Layout(lake_api.settings.lake.path)
    upkeep_policy = keep_versions_at_least(lake_api.settings.upkeep, keep_at_least)
    do_upkeep = plan_by_command if plan else upkeep_by_command
    table_outcomes = do_upkeep(open_lake(lake_api.spark, layout), application, upkeep_policy, tables or ())
    if json:
        for table_outcome in table_outcomes:
            show.print_json({**asdict(table_outcome), "dry_run": plan})
        return
    column_titles = ("table", "files", "then", "bytes", "then", "anchor", "kept")
    table_rows = [
        (
            table_outcome.name,
            table_outcome.files_before,
            None if plan and table_outcome.optimized else table_outcome.files_after,
            table_outcome.bytes_before,
            table_outcome.bytes_after,
            table_outcome.anchor,
            "; ".join(table_outcome.kept),
        )
        for table_outcome in table_outcomes
    ]
    show.print_table("Upkeep", column_titles, table_rows)
    if plan:
        table_names = (
            ", ".join(table_outcome.name for table_outcome in table_outcomes if table_outcome.optimized) or "none"
        )
        show.say(f"Nothing was changed. OPTIMIZE would be run on: {table_names}.")
