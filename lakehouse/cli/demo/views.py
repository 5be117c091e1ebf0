"""What the demo shows: progress of the load, tables, a changelog, the past, and the proof."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakehouse.demo
from lakehouse.cli.past.changes import event
from lakehouse.cli.terminal import show
from lakehouse.demo import app as flying
from lakehouse.errors import JobFailed
from lakehouse.kafka.drain import drain
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.settings.config import Settings
from lakehouse.spark.changelog import published

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
def loading(topics: Mapping[str, int]) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each topic while the year is produced; give the callback that moves it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=show.console(stderr=True)) as bars:
        tasks = {name: bars.add_task(name, total=None, start=False) for name in topics}

        def told(topic: str, done: int, total: int) -> None:
            bars.start_task(tasks[topic])
            bars.update(tasks[topic], completed=done, total=total)

        yield told


def tables(settings: Settings) -> None:
    """The tables as they are now."""
    layout = Layout(settings.lake.path)
    for title, sql in (
        ("Last known place of the planes that left last (location)", LAST_PLACES),
        ("Flights per plane, the ten with most (visits)", MOST_FLIGHTS),
        ("In the air at the year's end: took off, and no landing on record since (airborne)", IN_THE_AIR),
    ):
        found = reader.query(layout, sql).to_arrow_table()
        rows = [tuple(row.values()) for row in found.to_pylist()]
        show.table(title, found.column_names, rows)


def changelog(lake: Lake, servers: str) -> None:
    """The last changes of one plane's visits: per event, derived from bronze, and as they are in the Kafka topic."""
    changes = lake.changes(flying.visits, key=PLANE)
    derived = [event(row, flying.visits.key) for row in published.rows(changes)][-CHANGES_SHOWN:]
    rows = [(show.moment(c["time"]), c["value"]["flights"], c["value"]["miles"]) for c in derived]
    show.table(
        f"Changelog of visits, {PLANE}, the last {CHANGES_SHOWN}, per event", ("event time", "flights", "miles"), rows
    )
    cluster = Cluster(servers, lake.settings.kafka.options)
    found = [m for m in drain(cluster, lake.settings.kafka.options, CHANGELOG) if m.key() == PLANE.encode()]
    sent = [
        (f"{m.partition()}/{m.offset()}", show.moment(m.timestamp()[1]), m.key(), m.value())
        for m in found[-CHANGES_SHOWN:]
    ]
    show.table(f"The same in the Kafka topic {CHANGELOG}", ("partition/offset", "timestamp", "key", "value"), sent)


def where_was(lake: Lake) -> None:
    """Where a plane was at a past moment: its last change of location up to then."""
    changes = lake.changes(flying.location, key=PLANE)
    rows = list(published.rows(changes.where(f"_event_time_ms <= {_ms(DAY)}")))
    place = (
        f"on the way to, or at, {rows[-1]['dest']}; it left at {show.moment(rows[-1]['departed_at'])}"
        if rows
        else "nowhere yet"
    )
    show.say(f"\nWhere was {PLANE} on {DAY:%Y-%m-%d}, 00:00 UTC?  {place}.")


def picture(lake: Lake, at: datetime, out: Path) -> None:
    """Draw the planes in the air at a moment: the changelog of airborne, folded up to it."""
    from lakehouse.demo.picture import planes_in_the_air

    changes = lake.changes(flying.airborne).where(f"_event_time_ms <= {_ms(at)}")
    last = lake.spark.sql(LAST_OF_EACH, changes=changes)
    drawn = planes_in_the_air(at, list(published.rows(last)), out)
    show.say(f"In the air at {show.moment(at)}: {drawn.placed:,} planes. The picture: {out}")


def proof(settings: Settings, servers: str) -> bool:
    """Run the independent fold as a process of its own and show what it found; return whether everything is equal."""
    script = Path(lakehouse.demo.__file__).with_name("independent_fold.py")
    command = [sys.executable, str(script), "--bootstrap", servers, "--lake", settings.lake.path]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise JobFailed(f"the independent fold ended with exit code {done.returncode}; see above.")
    found: dict[str, Any] = json.loads(done.stdout)
    rows = [
        (
            name,
            part["equal"],
            part["rows_expected"],
            part["rows_found"],
            part["missing"] + part["extra"],
            part["different"],
        )
        for name, part in found["tables"].items()
    ]
    columns = ("table", "equal", "rows expected", "rows found", "missing or extra", "different")
    show.table("The proof: every table against an independent fold of the topics", columns, rows)
    show.table("Every offset accounted for", ("topic", "equal", "in Kafka", "in bronze", "gaps"), list(_topics(found)))
    show.say("Everything is equal." if found["equal"] else "NOT EQUAL: the tables above say where.")
    return bool(found["equal"])


def _topics(found: dict[str, Any]) -> Iterator[tuple[str, bool, int, int, int]]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for partition, part in found["partitions"].items():
        by_topic.setdefault(partition.rpartition("/")[0], []).append(part)
    for topic, parts in by_topic.items():
        sums = [sum(part[name] for part in parts) for name in ("offsets_kafka", "offsets_bronze", "gaps_in_kafka")]
        yield topic, all(part["equal"] for part in parts), sums[0], sums[1], sums[2]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
