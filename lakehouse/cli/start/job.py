"""Running an application for a command or a job: the signals that stop it, its events, its summary."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import BAD_INPUT, FAILED, OK, exit_code
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings
from lakehouse.signals import setting

if TYPE_CHECKING:
    from lakehouse.run.job.job import Part
    from lakehouse.run.watch.event import JobEvent

CAUGHT_UP = "caught-up"
STOPPED = "stopped"


def run_until(
    settings: Settings, app: App, parts: tuple[Part, ...] | None, until: str, listen: Callable[[JobEvent], None]
) -> dict[str, Any]:
    """Run an application until it is caught up, or until a signal stops it; return the "done" event."""
    from lakehouse.run.lake import Lake
    from lakehouse.run.start import ready, topics
    from lakehouse.run.start.kafka import kafka

    ready.check(settings, app, parts)
    began, rows = time.monotonic(), 0

    def tell(event: JobEvent) -> None:
        nonlocal rows
        rows += event.records if event.kind == "tick" else 0
        listen(event)

    with _terminated_like_interrupted(), kafka(settings) as servers:
        if parts is None or "ingest" in parts:
            topics.check(settings, app, servers)  # the last of what is said before Spark starts
        lake = Lake(settings=settings)
        _ = lake.spark  # first: pyspark sets a handler of its own for Ctrl-C when it starts
        if until == CAUGHT_UP:
            with _terminated_like_interrupted():
                lake.run(app, until="caught_up", parts=parts, listen=tell)
        else:
            with _stopped_by_signals() as stop:
                lake.run(app, parts=parts, stop=stop, listen=tell)
    return {
        "event": "done",
        "rows": rows,
        **_state(settings, app),
        "seconds": round(time.monotonic() - began, 1),
    }


def _state(settings: Settings, app: App) -> dict[str, Any]:
    """The lake after a run, as far as it is known without Spark. quarantined: the records that no replay has fixed;
    null_keys: those that a table left out for want of a key."""
    from lakehouse.lake import null_keys
    from lakehouse.lake.ahead import by_table
    from lakehouse.lake.record.quarantine import still_open

    layout = Layout(settings.lake.path)
    names = [table.name for table in app.tables]
    if "://" in layout.root:
        return {"tables": {name: {} for name in names}}
    known = set(reader.names(layout, "silver"))
    facts = {name: reader.facts(layout, "silver", name) for name in names if name in known}
    streams = {source.name for source in app.sources} & set(reader.names(layout, "quarantine"))
    without_key = null_keys.by_table(layout)
    bad = sorted(stream for stream, records in reader.quarantined(layout, streams).items() if records)
    return {
        "tick": reader.bronze_covers(layout).get("tick", 0),
        "tables": {name: {"rows": f.rows, "version": f.version, "tick": f.tick} for name, f in facts.items()},
        "quarantined": {stream: count for stream, count in still_open(layout, bad).items() if count},
        "null_keys": {name: without_key[name] for name in facts if without_key.get(name)},
        **({"ahead": [asdict(table) for table in ahead]} if (ahead := by_table(layout)) else {}),
    }


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Give an event that SIGTERM and Ctrl-C set; a second Ctrl-C does not wait."""
    stop = threading.Event()
    set_stop = setting(stop)

    def on_signal(number: int, frame: FrameType | None) -> None:
        set_stop(number, frame)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with _handlers({signal.SIGTERM: on_signal, signal.SIGINT: on_signal}):
        yield stop


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C unwind the stack, so that leases, and a broker of its own, are released."""

    def on_signal(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    with _handlers({signal.SIGTERM: on_signal, signal.SIGINT: on_signal}):
        yield


@contextmanager
def _handlers(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; elsewhere the owner of the process decides
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. {self.format_usage().strip()}")


def main(arguments: Sequence[str], about: str, work: Callable[[Settings, App, str], dict[str, Any]]) -> int:
    """Run a job of `spark_jobs`: --app, --config, --until; JSON lines on stdout; return the exit code.

    `work(settings, app, until)` gives the last event; one that is not "done" is a failure.
    """
    from lakehouse.cli.terminal.options import settings_of
    from lakehouse.run.start.application import load_app

    parser = _Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", required=True, help="a file that declares an application, or a module")
    parser.add_argument("--config", type=Path, help="settings; lakehouse.toml of this folder if left out")
    parser.add_argument("--until", choices=(CAUGHT_UP, STOPPED), default=CAUGHT_UP, help="caught-up if left out")
    try:
        given = parser.parse_args(arguments)
        last = work(settings_of(given.config, None), load_app(given.app), given.until)
    except LakehouseError as error:
        show.as_json({"event": "error", "message": str(error)})
        return BAD_INPUT if exit_code(error) == BAD_INPUT else FAILED
    except Exception as error:
        show.as_json({"event": "error", "message": f"{type(error).__name__}: {error}"})
        raise
    show.as_json(last)
    return OK if last["event"] == "done" else FAILED


def run_part(part: Part, arguments: Sequence[str], about: str) -> int:
    """Run "ingest" or "silver" as a job; return its exit code."""

    def work(settings: Settings, app: App, until: str) -> dict[str, Any]:
        from lakehouse.run.watch.event import as_event

        return run_until(settings, app, (part,), until, lambda event: show.as_json(as_event(event)))

    return main(arguments, about, work)


def run_checks(arguments: Sequence[str], about: str) -> int:
    """Run the checks as a job; return its exit code."""
    from lakehouse.cli.start.verify import verify

    def work(settings: Settings, app: App, until: str) -> dict[str, Any]:
        found = verify(Layout(settings.lake.path), app)
        said = {} if found["ok"] else {"message": "; ".join(found["problems"])}
        return {"event": "done" if found["ok"] else "error", **said, **found}

    return main(arguments, about, work)
