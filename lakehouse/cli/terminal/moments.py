"""The options that name a moment of the past, and the moment that they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from lakehouse.errors import ConfigError
from lakehouse.phases import phase
from lakehouse.semantics.moment import At, AtOffsets
from lakehouse.semantics.time.named_moment import ClockName, FindSource, moment_of, refuse_source
from lakehouse.settings.config import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.lake.moment.rows_at import FoldRows

AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="At this time: 2013-06-01T18:00Z, or a date; or at a database's position: source:16/B374D848.",
    ),
]
ClockOption = Annotated[
    str | None,
    typer.Option(
        metavar="event|commit",
        help="What --at means: the records up to that event time (the default), or what was committed by then.",
    ),
]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=0, help="At this version of the table; for one table only.")
]
TickOption = Annotated[int | None, typer.Option("--tick", min=0, help="After this tick.")]
OffsetsOption = Annotated[
    str | None,
    typer.Option(metavar="TOPIC/PARTITION=OFFSET,...", help="With the records before these offsets."),
]
FoldOption = Annotated[
    str | None,
    typer.Option("--app", metavar="APP", help="The application; with it Spark folds what lies between versions."),
]


def moment_of_options(
    time_text: str | None,
    clock: str | None,
    version: int | None,
    tick: int | None,
    offsets: str | None,
    find_source: FindSource = refuse_source,
) -> At | None:
    """Return the moment that the options mean; None for now. Raises ConfigError for an invalid or a second one.

    find_source: gives the offsets of a database's position, see `position_finder`.
    """
    if clock is not None and time_text is None:
        raise ConfigError(f"--clock {clock} says what --at means; name a time with --at.")
    return moment_of(
        time_text,
        clock=cast(ClockName, clock or "event"),
        version=version,
        tick=tick,
        offsets=offsets,
        find_source=find_source,
    )


def required_moment(moment: At | None) -> At:
    """Return the moment. Raises ConfigError if there is none."""
    if moment is None:
        raise ConfigError("expected a moment: --version, --tick, --at (with --clock commit) or --offsets.")
    return moment


def position_finder(settings: Settings, app: str | None) -> FindSource:
    """Return the function that finds the offsets of a position of the database behind an application, by Spark."""
    if app is None:
        return refuse_source

    def find_offsets(position: str) -> AtOffsets:
        from lakehouse.run.lake import Lake
        from lakehouse.run.start.application import load_app

        return Lake(settings=settings).source_moment(position, *load_app(app).tables)

    return find_offsets


def fold_of(settings: Settings, app: str | None) -> FoldRows | None:
    """Return the function by which Spark folds an application's table at a moment; None without an application."""
    if app is None:
        return None

    def fold_at_moment(name: str, moment: At) -> pa.Table:
        from lakehouse.run.lake import Lake
        from lakehouse.run.start.application import load_app

        with phase("folding", f"folding {name} at {moment}"):
            return Lake(settings=settings).fold_rows(load_app(app).table)(name, moment)

    return fold_at_moment
