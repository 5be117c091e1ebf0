"""The options of many commands, and the settings that they mean."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings

APPLICATION = re.compile(rb"^\s*\w+\s*=\s*(lh|lakehouse)\.app\(", re.MULTILINE)
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings; lakehouse.toml of this folder if left out.")
]
LakeOption = Annotated[
    str | None, typer.Option("--lake", metavar="PATH", help="The lake's folder; wins over the settings.")
]
JSON = "--json"
JsonOption = Annotated[bool, typer.Option(JSON, help="Print JSON, for programs.")]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="APP",
        help="The application: a file (app.py, app.sql) or a module, :NAME if it has several; lake.app if left out.",
    ),
]  # fmt: skip


WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; it is kept in the interventions.")]
DecidedByOption = Annotated[
    str | None,
    typer.Option(
        "--decided-by", metavar="NAME", envvar="LAKEHOUSE_DECIDED_BY", show_envvar=False,
        help="Who decided it, besides the operating system's user.",
    ),
]  # fmt: skip
PlanOption = Annotated[bool, typer.Option("--plan", help="Only say what would change, and how much; apply nothing.")]


def app_of(app: str | None, settings: Settings) -> str:
    """Return the application of a command line: the named one, or that of the settings. Raises ConfigError."""
    if (named_app := app or settings.lake.app) is not None:
        return named_app
    suggested_app = guess_app()
    raise ConfigError(
        f"no application is named. Name it with --app {suggested_app}, or once for all commands in lakehouse.toml: "
        f'app = "{suggested_app}" under [lake].'
    )


def guess_app() -> str:
    """Return the one file of the current folder that seems to declare an application; FILE.py if there are several."""
    app_files = [path for path in sorted(Path().glob("*.py")) if APPLICATION.search(path.read_bytes())]
    return app_files[0].name if len(app_files) == 1 else "FILE.py"


def with_app(app: str | None) -> str:
    """Return the application's option for a suggested command, in the spelling of the present command line."""
    return "" if app is None else f" --app {shlex.quote(app)}"


def lake_of(config: Path | None, lake: str | None) -> Settings:
    """Return the settings of a command line that reads a lake. Raises ConfigError, and NoLake for another folder."""
    from lakehouse.run.start.folders import check_lake

    settings = settings_of(config, lake)
    check_lake(settings.lake.path, named=lake is not None)
    return settings


def settings_of(config: Path | None, lake: str | None) -> Settings:
    """Return the settings that a command line means. Raises ConfigError."""
    from lakehouse.run.lake import Lake

    return Lake(lake, config=config).settings


def refuse_reversed(start: str | None, end: str | None, first: Any, last: Any) -> None:
    """Raise ConfigError if --to is before --from. first, last: the moments that these texts mean, None without one."""
    if first is not None and last is not None and first > last:
        raise ConfigError(f"--from {start} --to {end}: expected the earlier time first.")
