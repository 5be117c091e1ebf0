"""`lakehouse spark`: the Spark that is kept between commands."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import JsonOption

NONE_KEPT = "No Spark is kept."


def status(json: JsonOption = False) -> None:
    """Show the Sparks that are kept for this user's next commands and notebooks, by folder.

    Example: lakehouse spark status
    """
    from lakehouse.spark.jvm.kept.engine import kept_engines, state_of_engine

    facts: list[dict[str, Any]] = [state_of_engine(engine) for engine in kept_engines()]
    if json:
        show.print_json(facts)
    elif not facts:
        show.say(NONE_KEPT)
    else:
        rows = [
            (
                fact["folder"],
                str(fact["pid"]),
                f"in use by process {fact['client']}" if fact["client"] else f"idle, ends in {fact['ends_in']:.0f} s",
                f"{fact['memory'] >> 20:,} MB",
                time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(fact["started"])),
            )
            for fact in facts
        ]
        show.print_table("Spark", ("folder", "process", "state", "memory", "started"), rows)


def stop(
    every: Annotated[bool, typer.Option("--all", help="Also those of this user's other folders.")] = False,
    json: JsonOption = False,
) -> None:
    """End the Spark that is kept for this folder; nothing of a lake is lost.

    One that a command or a notebook uses ends with it; the exit code is 1 then.

    Example: lakehouse spark stop
    """
    from lakehouse.spark.jvm.kept.engine import client_pid, kept_engines, stop_engine
    from lakehouse.spark.jvm.kept.private_files import files_here

    facts = []
    scopes_here = {files_here(for_notebook=for_notebook).scope for for_notebook in (False, True)}
    for engine in kept_engines():
        if not every and engine.files.scope not in scopes_here:
            continue
        client = client_pid(engine.files)
        ended = stop_engine(engine)
        facts.append({"folder": engine.folder, "pid": engine.java_pid, "ended": ended})
        if not json:
            outcome = "was stopped." if ended else f"is in use by process {client}: it ends with that process."
            show.say(f"Spark of {engine.folder} (process {engine.java_pid}) {outcome}")
    if json:
        show.print_json(facts)
    elif not facts:
        show.say(NONE_KEPT)
    if not all(fact["ended"] for fact in facts):
        raise typer.Exit(FAILED)
