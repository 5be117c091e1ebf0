"""`lakehouse test check`: is every table current, and every offset accounted for?"""

from __future__ import annotations

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, LakeOption, app_of, lake_of


def check(app: AppOption = None, config: ConfigOption = None, lake: LakeOption = None) -> None:
    """Check that an application's tables are current and that every offset is accounted for. Prints JSON.

    Exit code 1 when something is not as it should be; "problems" says what.

    Example: lakehouse test check --app app.py
    """
    from lakehouse.cli.start.verify import verify_tables
    from lakehouse.lake.layout import Layout
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    check_report = verify_tables(Layout(settings.lake.path), load_app(app_of(app, settings)))
    show.print_json(check_report)
    if not check_report["ok"]:
        raise typer.Exit(FAILED)
