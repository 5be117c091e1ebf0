"""`lakehouse run`: an application, with its progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import exit_code
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of
from lakehouse.cli.terminal.waiting import SILENCE_SECONDS, PhaseLines, let_show_phases
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.markup.quantity import quantity
from lakehouse.phases import describe_phases, phase, phases_under_way, seconds_idle
from lakehouse.spark.jvm.kept.choice import allow_keeping

if TYPE_CHECKING:
    from lakehouse.plan.app import App
    from lakehouse.run.job.job import Part
    from lakehouse.run.watch.event import JobEvent
    from lakehouse.run.watch.lines import Lines
    from lakehouse.settings.config import Log, Settings


IDLE = "up to date, waits for records"


class Until(StrEnum):
    """The moment at which a run ends by itself."""

    caught_up = "caught-up"


class RunPart(StrEnum):
    """One part of a run."""

    ingest = "ingest"
    silver = "silver"


def run(
    app: AppOption = None,
    until: Annotated[
        Until | None, typer.Option(help="End when everything that Kafka has at the start is taken in.")
    ] = None,
    only: Annotated[
        RunPart | None, typer.Option(help="Run one part: Kafka to bronze, or bronze to the tables.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option("--part", metavar="K/N", help="With --only silver: one of N parts of the tables, such as 1/3."),
    ] = None,
    tables: Annotated[
        str | None,
        typer.Option("--tables", metavar="NAMES", help="With --only silver: these tables, such as totals,orders."),
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Run an application: ingest its topics, keep its tables, publish its changelogs.

    Keeps running until Ctrl-C or SIGTERM, and starts again where it stopped; with --until caught-up it ends by itself.

    Example: lakehouse run --app app.py --until caught-up
    """
    from lakehouse.cli.start.job import divide_app
    from lakehouse.run.start.application import load_app

    settings = settings_of(config, lake)
    if until is None:
        allow_keeping(allowed=False)  # it would have a kept engine for as long as it runs
    with (
        errors_as_lines(settings.log, as_json_lines=not json),
        phases_as_lines(settings.log, json=json, ends=until is not None),
    ):
        if (part or tables) and only != RunPart.silver:
            raise ConfigError(
                "--part and --tables divide the tables among processes. Expected --only silver with them; one other "
                "process ingests for all: lakehouse run --only ingest."
            )
        application = divide_app(load_app(app_of(app, settings)), part, tables)
        _run_application(settings, application, until, only, json=json)


def _run_application(
    settings: Settings, application: App, until: Until | None, only: RunPart | None, *, json: bool
) -> None:
    from lakehouse.cli.start.job import STOPPED, run_until
    from lakehouse.run.start import cheap_checks, topics
    from lakehouse.run.start.kafka import open_kafka
    from lakehouse.run.watch.event import as_event

    run_parts: tuple[Part, ...] = ("ingest", "silver") if only is None else (only.value,)
    cheap_checks.check_before_run(settings, application, run_parts)  # fail before a broker starts
    with open_kafka(settings) as servers:
        if "ingest" in run_parts:
            with phase("asking Kafka for the topics"):
                topics.check_topics(settings, application, servers)
        if json:
            for warning in application.warnings:
                show.print_json({"event": "warning", "message": warning})
            done_event = run_until(
                settings, application, run_parts, until or STOPPED, lambda event: show.print_json(as_event(event))
            )
            show.print_json(done_event)
            return
        only_lines = shows_lines(settings.log.format) and (until is None or settings.log.format == "json")
        if shows_lines(settings.log.format):
            with run_logged_in_lines(settings, application, servers) as line_writer:
                done_event = run_until(settings, application, run_parts, until or STOPPED, line_writer)
                line_writer.write_summary(done_event)
        else:
            for warning in application.warnings:
                show.say(f"warning: {warning}", stderr=True)
            waiting_count = count_waiting_records(settings, application, servers) if "ingest" in run_parts else 0
            with show_progress(application, waiting_count, ends=until is not None) as listen:
                done_event = run_until(settings, application, run_parts, until or STOPPED, listen)
    if not only_lines:
        print_summary(done_event)


def shows_lines(log_format: str) -> bool:
    """Say whether a run reports in lines of a log: always if the settings say so, else where there is no terminal."""
    return log_format != "auto" or not sys.stderr.isatty()


@contextmanager
def errors_as_lines(log: Log, *, as_json_lines: bool = True) -> Iterator[None]:
    """End the command with an error as a line, if the log is JSON; else let it pass, as in any command."""
    from lakehouse.run.watch.lines import Lines

    try:
        yield
    except LakehouseError as error:
        if not as_json_lines or log.format != "json":
            raise
        Lines(log, _say_on_stderr).say("error", str(error), event="error")
        raise typer.Exit(exit_code(error)) from error


@contextmanager
def phases_as_lines(log: Log, *, json: bool, ends: bool) -> Iterator[None]:
    """Say the phases of a run in its log, if it has one in lines. ends: it does not go on when nothing is new."""
    from lakehouse.run.watch.lines import Lines

    if json or not shows_lines(log.format):
        yield
        return
    log_lines = Lines(log, _say_on_stderr)
    idle_text = None if ends else IDLE
    lines = PhaseLines(lambda text: log_lines.say("info", text, event="phase"), time.monotonic(), idle_text)
    with let_show_phases(lines):
        yield


@contextmanager
def run_logged_in_lines(settings: Settings, app: App, servers: str) -> Iterator[Lines]:
    """Report a run in lines on stderr; give the writer of the lines, which takes the run's events."""
    from lakehouse.run.watch.lines import Lines

    line_writer = Lines(settings.log, _say_on_stderr)
    input_names = {"topics": list(app.topics), "tables": [table.name for table in app.tables]}
    line_writer.say(
        "info", f"run: {', '.join(input_names['topics'])} of Kafka on {servers} into {settings.lake.path}",
        event="run", kafka=servers, lake=settings.lake.path, **input_names,
    )  # fmt: skip
    for warning in app.warnings:
        line_writer.say("warning", warning, event="warning")
    yield line_writer


def _say_on_stderr(line: str) -> None:
    show.say(line, stderr=True)


def count_waiting_records(settings: Settings, app: App, servers: str) -> int:
    """Return how many records Kafka has that bronze does not."""
    from lakehouse.kafka.topics import Cluster
    from lakehouse.run.watch.lag import count_waiting

    with phase("asking Kafka what is new"):
        return sum(count_waiting(settings, app, Cluster(servers, settings.kafka.options)).values())


@contextmanager
def show_progress(app: App, waiting_count: int, *, ends: bool = True) -> Iterator[Callable[[JobEvent], None]]:
    """Show a run on stderr while it lasts; give its listener.

    waiting_count: the records to ingest, as of now. ends: the run does not go on when nothing is new.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from lakehouse.run.watch.lines import WARNINGS, event_text

    columns = (SpinnerColumn(), TextColumn("{task.description:8}"), BarColumn(), TextColumn("{task.fields[said]}"))
    record_counts = {"tick": 0, "batch": 0, "published": 0}
    with Progress(*columns, TimeElapsedColumn(), console=show.console(stderr=True)) as progress_bars:
        bar_tasks = {
            "tick": progress_bars.add_task("ingest", total=waiting_count or None, said=""),
            "batch": progress_bars.add_task("tables", total=waiting_count * _tables_per_record(app) or None, said=""),
        }
        if app.sinks:
            bar_tasks["published"] = progress_bars.add_task("publish", total=None, said="")
        now_task = progress_bars.add_task("now", total=None, said="")

        def show_now(now: float) -> None:
            if threads := phases_under_way():
                progress_bars.update(now_task, total=None, said=show.escaped(describe_phases(threads[-1], now)))
            elif not ends and seconds_idle(now) >= SILENCE_SECONDS:
                # A full bar does not move: a job that waits for records does not look like one that works.
                progress_bars.update(now_task, total=1, completed=1, said=IDLE)

        def listen(event: JobEvent) -> None:
            if event.kind in (*WARNINGS, "kafka back"):
                progress_bars.console.print(show.escaped(event_text(event)), markup=False)
            if event.kind not in bar_tasks:
                return
            record_counts[event.kind] += event.records
            progress_text = {
                "tick": f"{record_counts['tick']:,} records of {max(waiting_count, record_counts['tick']):,}",
                "batch": f"{record_counts['batch']:,} records into {len(app.tables)} tables",
                "published": f"{record_counts['published']:,} records to topics",
            }[event.kind]
            progress_bars.update(
                bar_tasks[event.kind], completed=record_counts[event.kind], said=f"tick {event.tick:,}: {progress_text}"
            )

        with let_show_phases(show_now):
            yield listen


def _tables_per_record(app: App) -> int:
    """Estimate how many tables take in a record of a topic: a rough total is enough for a bar."""
    return max(1, round(len(app.tables) / max(1, len(app.topics))))


def print_summary(done_event: dict[str, Any]) -> None:
    """Print the summary of a run."""
    from lakehouse.lake.clocks_ahead import ClockAhead
    from lakehouse.lake.null_keys import null_keys_sentence

    table_rows = [
        (name, table_facts.get("rows"), table_facts.get("version"), table_facts.get("tick"))
        for name, table_facts in done_event["tables"].items()
    ]
    show.print_table("Tables", ("table", "rows", "version", "tick"), table_rows)
    show.say(
        f"{quantity(done_event['rows'], 'record')} ingested in {done_event['seconds']:.1f} s; bronze is at tick "
        f"{done_event.get('tick', 0):,}."
    )
    for stream, records in done_event.get("quarantined", {}).items():
        show.say(f"In the quarantine, of {stream}: {records:,}. `lakehouse look quarantine {stream}` says why.")
    for table, records in done_event.get("null_keys", {}).items():
        show.say(null_keys_sentence(table, done_event["tables"][table].get("rows"), records))
    for table in done_event.get("ahead", ()):
        show.say(str(ClockAhead(**table)))
