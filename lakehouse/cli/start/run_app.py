"""`lakehouse run`: an application, with its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import exit_code
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.plan.app import App
    from lakehouse.run.job.job import Part
    from lakehouse.run.watch.event import JobEvent
    from lakehouse.run.watch.lines import Lines
    from lakehouse.settings.config import Log, Settings


class Until(StrEnum):
    """When a run ends by itself."""

    caught_up = "caught-up"


class Only(StrEnum):
    """One part of a run."""

    ingest = "ingest"
    silver = "silver"


def run(
    app: AppOption = None,
    until: Annotated[
        Until | None, typer.Option(help="End when everything that Kafka has at the start is taken in.")
    ] = None,
    only: Annotated[Only | None, typer.Option(help="Run one part: Kafka to bronze, or bronze to the tables.")] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Run an application: ingest its topics, keep its tables, publish its changelogs.

    Keeps running until Ctrl-C or SIGTERM, and starts again where it stopped; with --until caught-up it ends by itself.

    Example: lakehouse run --app app.py --until caught-up
    """
    settings = settings_of(config, lake)
    with errors_as_lines(settings.log, wanted=not json):
        _run(settings, app, until, only, json=json)


def _run(settings: Settings, app: str | None, until: Until | None, only: Only | None, *, json: bool) -> None:
    from lakehouse.cli.start.job import STOPPED, run_until
    from lakehouse.run.start import ready, topics
    from lakehouse.run.start.application import load_app
    from lakehouse.run.start.kafka import kafka
    from lakehouse.run.watch.event import as_event

    application = load_app(app_of(app, settings))
    parts: tuple[Part, ...] = ("ingest", "silver") if only is None else (only.value,)
    ready.check(settings, application, parts)  # said before a broker starts
    with kafka(settings) as servers:
        if "ingest" in parts:
            topics.check(settings, application, servers)
        if json:
            for text in application.warnings:
                show.as_json({"event": "warning", "message": text})
            last = run_until(
                settings, application, parts, until or STOPPED, lambda event: show.as_json(as_event(event))
            )
            show.as_json(last)
            return
        lines_alone = as_lines(settings.log.format) and (until is None or settings.log.format == "json")
        if as_lines(settings.log.format):
            with logged(settings, application, servers) as lines:
                last = run_until(settings, application, parts, until or STOPPED, lines)
                lines.done(last)
        else:
            for text in application.warnings:
                show.say(f"warning: {text}", stderr=True)
            waiting = waiting_records(settings, application, servers) if "ingest" in parts else 0
            with progress(application, waiting) as listen:
                last = run_until(settings, application, parts, until or STOPPED, listen)
    if not lines_alone:
        summary(last)


def as_lines(form: str) -> bool:
    """Whether a run is told in lines of a log: always if the settings say so, else where there is no terminal."""
    return form != "auto" or not sys.stderr.isatty()


@contextmanager
def errors_as_lines(log: Log, *, wanted: bool = True) -> Iterator[None]:
    """End the command with the line of an error, if the log is JSON; else it is told as that of any command."""
    from lakehouse.run.watch.lines import Lines

    try:
        yield
    except LakehouseError as error:
        if not wanted or log.format != "json":
            raise
        Lines(log, _on_stderr).say("error", str(error), event="error")
        raise typer.Exit(exit_code(error)) from error


@contextmanager
def logged(settings: Settings, app: App, servers: str) -> Iterator[Lines]:
    """Tell a run in lines on stderr; give their writer, which is told the run's events."""
    from lakehouse.run.watch.lines import Lines

    lines = Lines(settings.log, _on_stderr)
    names = {"topics": list(app.topics), "tables": [table.name for table in app.tables]}
    lines.say(
        "info", f"run: {', '.join(names['topics'])} of Kafka on {servers} into {settings.lake.path}",
        event="run", kafka=servers, lake=settings.lake.path, **names,
    )  # fmt: skip
    for text in app.warnings:
        lines.say("warning", text, event="warning")
    yield lines


def _on_stderr(line: str) -> None:
    show.say(line, stderr=True)


def waiting_records(settings: Settings, app: App, servers: str) -> int:
    """Return how many records Kafka has that bronze does not."""
    from lakehouse.kafka.topics import Cluster
    from lakehouse.run.watch.lag import lag

    return sum(lag(settings, app, Cluster(servers, settings.kafka.options)).values())


@contextmanager
def progress(app: App, waiting: int) -> Iterator[Callable[[JobEvent], None]]:
    """Show a run on stderr while it lasts; give its listener. `waiting`: the records to ingest, known now."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from lakehouse.run.watch.lines import WARNINGS, text_of

    columns = (SpinnerColumn(), TextColumn("{task.description:8}"), BarColumn(), TextColumn("{task.fields[said]}"))
    done = {"tick": 0, "batch": 0, "published": 0}
    with Progress(*columns, TimeElapsedColumn(), console=show.console(stderr=True)) as bars:
        tasks = {
            "tick": bars.add_task("ingest", total=waiting or None, said="starting"),
            "batch": bars.add_task("tables", total=waiting * _tables_per_record(app) or None, said="waiting"),
        }
        if app.sinks:
            tasks["published"] = bars.add_task("publish", total=None, said="waiting")

        def listen(event: JobEvent) -> None:
            if event.kind in (*WARNINGS, "kafka back"):
                bars.console.print(show.escaped(text_of(event)), markup=False)
            if event.kind not in tasks:
                return
            done[event.kind] += event.records
            said = {
                "tick": f"{done['tick']:,} records of {max(waiting, done['tick']):,}",
                "batch": f"{done['batch']:,} records into {len(app.tables)} tables",
                "published": f"{done['published']:,} records to topics",
            }[event.kind]
            bars.update(tasks[event.kind], completed=done[event.kind], said=f"tick {event.tick:,}: {said}")

        yield listen


def _tables_per_record(app: App) -> int:
    """A record of a topic is taken in once by each table that reads it; a rough total is enough for a bar."""
    return max(1, round(len(app.tables) / max(1, len(app.topics))))


def summary(done: dict[str, Any]) -> None:
    """Print what a run left behind."""
    from lakehouse.lake.ahead import Ahead
    from lakehouse.lake.null_keys import sentence

    rows = [(name, of.get("rows"), of.get("version"), of.get("tick")) for name, of in done["tables"].items()]
    show.table("Tables", ("table", "rows", "version", "tick"), rows)
    show.say(
        f"{done['rows']:,} records ingested in {done['seconds']:.1f} s; bronze is at tick {done.get('tick', 0):,}."
    )
    for stream, records in done.get("quarantined", {}).items():
        show.say(f"In the quarantine, of {stream}: {records:,}. `lakehouse look quarantine {stream}` says why.")
    for table, records in done.get("null_keys", {}).items():
        show.say(sentence(table, done["tables"][table].get("rows"), records))
    for table in done.get("ahead", ()):
        show.say(str(Ahead(**table)))
