"""Options that many commands have, and the settings that they give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.settings.config import Settings

if TYPE_CHECKING:
    pass

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings; lakehouse.toml of this folder if left out.")
]
LakeOption = Annotated[
    str | None, typer.Option("--lake", metavar="PATH", help="The lake's folder; wins over the settings.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
AppOption = Annotated[
    str,
    typer.Option("--app", metavar="APP", help="The application: a file (app.py) or a module; :NAME if it has several."),
]
AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP", help="A file (app.py) or a module that declares an application, with :NAME if it has several."
    ),
]


ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it is kept in the interventions.")]
DecidedByOption = Annotated[
    str | None,
    typer.Option(
        "--decided-by", metavar="NAME", envvar="LAKEHOUSE_DECIDED_BY", show_envvar=False,
        help="Who decided it, besides the operating system's user.",
    ),
]  # fmt: skip
PlanOption = Annotated[bool, typer.Option("--plan", help="Only say what would change, and how much; apply nothing.")]


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
