"""The console entry: the commands put together, and errors turned into one message and an exit code."""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from lakehouse.cli import (
    airflow,
    audit,
    backfill,
    backtest,
    blame,
    broker,
    capture,
    changes,
    check,
    correct,
    demo,
    diff,
    drill,
    explain,
    init,
    interventions,
    late,
    plan,
    produce,
    quarantine,
    read,
    rebuild,
    rehydrate,
    restore,
    revert,
    run_app,
    status,
    test,
    upkeep,
)
from lakehouse.cli.failure import FAILED, INTERRUPTED, exit_code
from lakehouse.errors import LakehouseError

DEBUG = "--debug"

app = typer.Typer(
    help="Kafka topics, kept as Delta tables: streams, keyed tables and their changelogs, with the whole history.",
    epilog="A first application: lakehouse init shop; a tour on real flights: lakehouse demo.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("lakehouse"))
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Read what stands before the command. `main` has taken --debug out already: it may stand anywhere."""


for command in (
    broker.up, broker.down, status.status, produce.produce, run_app.run, read.query, read.log, changes.changes,
    diff.show, diff.diff, blame.bisect, blame.blame, late.late, correct.correct, read.tables, read.describe,
    init.init, restore.restore, check.check, plan.plan, capture.capture, demo.demo, rehydrate.rehydrate,
    explain.explain, upkeep.upkeep, drill.drill, backfill.backfill, revert.revert, rebuild.checkout, rebuild.rebuild,
    backtest.backtest, interventions.interventions, quarantine.quarantine, audit.audit,
):  # fmt: skip
    app.command()(command)
app.add_typer(airflow.airflow, name="airflow")
# A function called test would be taken for one by pytest and its linters.
app.command("test")(test.run_scenarios)


def main(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    debug = DEBUG in arguments
    try:
        app([argument for argument in arguments if argument != DEBUG], prog_name="lakehouse")
    except LakehouseError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED if end.code else 0
    return 0


def run() -> None:
    """The console entry of pyproject.toml."""
    _end(main(sys.argv[1:]))


def _end(code: int) -> None:
    """End this process as `sys.exit` does, but without taking native libraries down.

    Under load their threads (of deltalake, duckdb, pyarrow) were still running then, and ended the process by an abort
    after its work was done.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    with suppress(OSError):  # a pipe that nobody reads any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
