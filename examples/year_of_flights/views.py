"""The demo's output: progress of the load, tables, a changelog, the past, and the proof."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.cli.past.changes import change_event
from lakehouse.cli.terminal import show
from lakehouse.errors import JobFailed
from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.settings.config import Settings
from lakehouse.spark.changelog import published

from . import app as flying

if TYPE_CHECKING:
    from lakehouse.run.lake import Lake

PLANE = "N14228"
DAY = datetime(2013, 6, 1, tzinfo=UTC)
CHANGELOG = "visits-changelog"
CHANGES_SHOWN = 5

LAST_PLACES = """
    SELECT tailnum, manufacturer, model, dest AS "to", departed_at AS "left at"
    FROM location LEFT JOIN planes USING (tailnum) ORDER BY departed_at DESC, tailnum LIMIT 8
"""
MOST_FLIGHTS = "SELECT tailnum, flights, miles FROM visits ORDER BY flights DESC, tailnum LIMIT 10"
IN_THE_AIR = """
    SELECT tailnum, carrier || flight AS flight, origin AS "from", dest AS "to", took_off_at AS "took off"
    FROM airborne ORDER BY took_off_at DESC LIMIT 12
"""
# The changelog of a table, folded: the last change of each key, where that is not a tombstone.
LAST_OF_EACH = """
    SELECT last.* FROM (SELECT max_by(struct(*), _position) AS last FROM {changes} GROUP BY tailnum)
    WHERE NOT last._tombstone
"""


@contextmanager
def show_loading(topics: Mapping[str, int]) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each topic while the year is produced; give the callback that moves it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=show.console(stderr=True)) as progress_bars:
        bar_tasks = {name: progress_bars.add_task(name, total=None, start=False) for name in topics}

        def show_loaded(topic: str, record_count: int, record_total: int) -> None:
            progress_bars.start_task(bar_tasks[topic])
            progress_bars.update(bar_tasks[topic], completed=record_count, total=record_total)

        yield show_loaded


def show_tables(settings: Settings) -> None:
    """Show the tables as they are now."""
    layout = Layout(settings.lake.path)
    for title, sql in (
        ("Last known place of the planes that left last (location)", LAST_PLACES),
        ("Flights per plane, the ten with most (visits)", MOST_FLIGHTS),
        ("In the air at the year's end: took off, and no landing on record since (airborne)", IN_THE_AIR),
    ):
        arrow_table = reader.query_lake(layout, sql).to_arrow_table()
        table_rows = [tuple(row.values()) for row in arrow_table.to_pylist()]
        show.print_table(title, arrow_table.column_names, table_rows)


def show_changelog(lake: Lake, servers: str) -> None:
    """Show the last changes of a plane's visits: per event, derived from bronze, and as they are in the Kafka topic."""
    changes = lake.changes(flying.visits, key=PLANE)
    derived_changes = [change_event(row, flying.visits.key) for row in published.rows_of_frame(changes)][
        -CHANGES_SHOWN:
    ]
    change_rows = [
        (show.moment(change["time"]), change["value"]["flights"], change["value"]["miles"])
        for change in derived_changes
    ]
    show.print_table(
        f"Changelog of visits, {PLANE}, the last {CHANGES_SHOWN}, per event",
        ("event time", "flights", "miles"),
        change_rows,
    )
    cluster = Cluster(servers, lake.settings.kafka.options)
    plane_messages = [
        message
        for message in read_topic(cluster, lake.settings.kafka.options, CHANGELOG)
        if message.key() == PLANE.encode()
    ]
    sent_rows = [
        (
            f"{message.partition()}/{message.offset()}",
            show.moment(message.timestamp()[1]),
            message.key(),
            message.value(),
        )
        for message in plane_messages[-CHANGES_SHOWN:]
    ]
    show.print_table(
        f"The same in the Kafka topic {CHANGELOG}", ("partition/offset", "timestamp", "key", "value"), sent_rows
    )


def show_past_place(lake: Lake) -> None:
    """Show where a plane was at a past moment: its last change of location up to then."""
    changes = lake.changes(flying.location, key=PLANE)
    change_rows = list(published.rows_of_frame(changes.where(f"_event_time_ms <= {_milliseconds(DAY)}")))
    place_text = (
        f"on the way to, or at, {change_rows[-1]['dest']}; it left at {show.moment(change_rows[-1]['departed_at'])}"
        if change_rows
        else "nowhere yet"
    )
    show.say(f"\nWhere was {PLANE} on {DAY:%Y-%m-%d}, 00:00 UTC?  {place_text}.")


def draw_picture(lake: Lake, moment: datetime, picture_path: Path) -> None:
    """Draw the planes in the air at a moment: the changelog of airborne, folded up to it."""
    from .picture import planes_in_the_air

    changes = lake.changes(flying.airborne).where(f"_event_time_ms <= {_milliseconds(moment)}")
    last_changes = lake.spark.sql(LAST_OF_EACH, changes=changes)
    airborne_planes = planes_in_the_air(moment, list(published.rows_of_frame(last_changes)), picture_path)
    show.say(f"In the air at {show.moment(moment)}: {airborne_planes.placed:,} planes. The picture: {picture_path}")


def show_proof(settings: Settings, servers: str) -> bool:
    """Run the independent fold in its own process and show its results; return whether everything is equal."""
    fold_script = Path(__file__).with_name("independent_fold.py")
    command = [sys.executable, str(fold_script), "--bootstrap", servers, "--lake", settings.lake.path]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode not in (0, 1):
        raise JobFailed(f"the independent fold ended with exit code {process.returncode}; see above.")
    fold_report: dict[str, Any] = json.loads(process.stdout)
    table_rows = [
        (
            name,
            part["equal"],
            part["rows_expected"],
            part["rows_found"],
            part["missing"] + part["extra"],
            part["different"],
        )
        for name, part in fold_report["tables"].items()
    ]
    column_titles = ("table", "equal", "rows expected", "rows found", "missing or extra", "different")
    show.print_table("The proof: every table against an independent fold of the topics", column_titles, table_rows)
    show.print_table(
        "Every offset accounted for",
        ("topic", "equal", "in Kafka", "in bronze", "gaps"),
        list(_topic_sums(fold_report)),
    )
    show.say("Everything is equal." if fold_report["equal"] else "NOT EQUAL: the tables above say where.")
    return bool(fold_report["equal"])


def _topic_sums(fold_report: dict[str, Any]) -> Iterator[tuple[str, bool, int, int, int]]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for partition, partition_report in fold_report["partitions"].items():
        by_topic.setdefault(partition.rpartition("/")[0], []).append(partition_report)
    for topic, partition_reports in by_topic.items():
        offset_sums = [
            sum(partition_report[name] for partition_report in partition_reports)
            for name in ("offsets_kafka", "offsets_bronze", "gaps_in_kafka")
        ]
        yield (
            topic,
            all(partition_report["equal"] for partition_report in partition_reports),
            offset_sums[0],
            offset_sums[1],
            offset_sums[2],
        )


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
