"""The console entry: the commands, and errors turned into one message and an exit code."""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import platform
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Annotated

import typer

from lakehouse.cli import groups
from lakehouse.cli.start.run_signals import claim_process
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED, INTERRUPTED, exit_code, file_error_message, java_error_message
from lakehouse.cli.terminal.options import JSON
from lakehouse.cli.terminal.standard_streams import open_missing_streams
from lakehouse.cli.terminal.waiting import show_phases
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.spark.jvm.kept.choice import allow_keeping

DEBUG = "--debug"

app = typer.Typer(
    help="Kafka topics, kept as Delta tables: streams, keyed tables and their changelogs, with the whole history.",
    epilog="A first application: lakehouse init shop; a tour on real flights: lakehouse demo.",
    no_args_is_help=True,
    cls=groups.Top,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        for name, package in (("lakehouse", "lakehouse"), ("Spark", "pyspark"), ("Delta", "delta-spark")):
            show.say(f"{name} {importlib.metadata.version(package)}")
        show.say(f"Python {platform.python_version()}")
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions and end.")
    ] = False,
) -> None:
    """Read the options before the command. `main` has already removed --debug, which can stand anywhere."""


groups.add_to(app)


def main(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    debug = DEBUG in arguments
    try:
        _check_texts(arguments)
        app([argument for argument in arguments if argument != DEBUG], prog_name="lakehouse")
    except Exception as error:
        message = java_error_message(error) or file_error_message(error)
        if debug or (message is None and not isinstance(error, LakehouseError)):
            raise
        show.say(f"error: {message or error}", stderr=True)
        if not isinstance(error, LakehouseError):
            return FAILED
        if sys.stderr.isatty():
            show.say(f"More: lakehouse explain-error {type(error).__name__}", stderr=True)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as system_exit:
        return system_exit.code if isinstance(system_exit.code, int) else FAILED if system_exit.code else 0
    return 0


def _check_texts(arguments: Sequence[str]) -> None:
    """Raise ConfigError for an argument with bytes that are no UTF-8, unless it is the path of something that is there.

    Python has a surrogate for such a byte, which neither SQL nor Kafka nor Delta accepts.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            value = argument.partition("=")[2] if argument.startswith("--") else argument
            if not os.path.lexists(value):
                raise ConfigError(
                    f"found {argument!r}, with bytes that are no UTF-8; expected text in UTF-8. Only the path of a "
                    "file that exists may have other bytes."
                ) from None


def run() -> None:
    """Run the console entry of pyproject.toml."""
    open_missing_streams()
    sys.excepthook = show_trace
    allow_keeping(allowed=True)
    claim_process()
    with show_phases(quiet=JSON in sys.argv):
        code = main(sys.argv[1:])
    _end_process(code)


def show_trace(error_class: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print Python's text of an uncaught error, escaped, since it may quote a record."""
    show.say("".join(traceback.format_exception(error_class, error, trace)), stderr=True, nl=False)


def _end_process(code: int) -> None:
    """End this process as `sys.exit` does, but without taking native libraries down.

    Under load their threads (of deltalake, duckdb, pyarrow) still ran at that point, and aborted the process after it
    had done its work.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    with suppress(OSError):  # nobody reads the pipe any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
