"""Options that many commands have, and the settings that they lead to."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings

if TYPE_CHECKING:
    from lakehouse.semantics.moment import At

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings; lakehouse.toml of this folder if left out.")
]
LakeOption = Annotated[
    str | None, typer.Option("--lake", metavar="PATH", help="The lake's folder; wins over the settings.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
AppOption = Annotated[
    str,
    typer.Option("--app", metavar="APP", help="The application: a file (app.py) or a module, with :NAME if need be."),
]
AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP", help="A file (app.py) or a module that declares an application, with :NAME if need be."
    ),
]


ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stands in the interventions.")]
DecidedByOption = Annotated[
    str | None,
    typer.Option(
        "--decided-by", metavar="NAME", envvar="LAKEHOUSE_DECIDED_BY", show_envvar=False,
        help="Who decided it, beside the operating system's user.",
    ),
]  # fmt: skip
PlanOption = Annotated[bool, typer.Option("--plan", help="Only say what would change, and how much; apply nothing.")]


class Clocks(StrEnum):
    """By which clock a time is meant."""

    event = "event"
    commit = "commit"


VersionOption = Annotated[int | None, typer.Option("--version", help="A version of the Delta table.")]
TickOption = Annotated[int | None, typer.Option("--tick", help="After this tick.")]
AtOption = Annotated[str | None, typer.Option("--at", metavar="TIME", help="A time, see --clock.")]
ClockOption = Annotated[
    Clocks, typer.Option("--clock", help="--at by event time (the world then), or by commit time (what we knew then).")
]
OffsetsOption = Annotated[
    str | None, typer.Option("--offsets", metavar="TOPIC/P=N,...", help="The first offsets that do not count.")
]


def required(at: At | None) -> At:
    """Return the moment; ConfigError where none was given."""
    if at is None:
        raise ConfigError("expected a moment: --version, --tick, --at (with --clock commit) or --offsets.")
    return at


def settings_of(config: Path | None, lake: str | None) -> Settings:
    """Return the settings that a command line means. Raises ConfigError."""
    from lakehouse.run.lake import Lake

    return Lake(lake, config=config).settings
