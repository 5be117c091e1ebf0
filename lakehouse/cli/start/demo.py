"""`lakehouse demo`: runs the tour of examples/year_of_flights, which a wheel takes along."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.terminal.failure import FAILED
from lakehouse.setup.places import project_folder

FOLDER = Path("demo-lake")
MOMENT = "2013-07-04T18:00Z"


def demo(
    at: Annotated[
        str, typer.Option(metavar="MOMENT", help="The picture's moment, ISO 8601, UTC unless it says otherwise.")
    ] = MOMENT,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The picture: .png, .svg or .pdf.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the broker running, to try the other commands.")] = False,
    lake: Annotated[
        Path, typer.Option("--lake", metavar="FOLDER", help="The demo's folder; recreated every time.")
    ] = FOLDER,
) -> None:
    """Replay a year of flights through Kafka into tables, show them, and prove that they are right.

    996,000 records, about two minutes on two cores. The folder stays: look at it with the other commands.

    Example: lakehouse demo --at 2013-12-24T22:00Z --out christmas.svg
    """
    sys.path.insert(0, str(project_folder() / "examples"))
    tour = import_module("year_of_flights.tour")
    if not tour.run_demo(at, out, lake, keep_broker=keep):
        raise typer.Exit(FAILED)
