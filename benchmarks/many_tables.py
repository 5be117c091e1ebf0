"""Many tables in one lake: a batch of 1,000 records of ten topics into 1, 10 and 50 tables, in one Spark session.

    .venv/bin/python benchmarks/many_tables.py [--tables N ...] [--batches N] [--records N]

Needs a quiet machine. A job runs all the while. Of each number of tables one batch goes before and is left out; the
next ones are measured from the first record that Kafka has to the commit of the last table. The counts are checked.
"""

from __future__ import annotations

import argparse
import random
import statistics
import threading
import time

from common import lake_and_broker, record, show

import lakehouse as lh
from lakehouse.kafka.produce import produce
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.app import App
from lakehouse.run.lake import Lake
from lakehouse.run.watch.event import JobEvent

TOPICS = 10
PATIENCE_SECONDS = 600.0


def application(count: int) -> App:
    """Tables spread over the topics: counts by key, last values, sums, in turn."""
    tables = []
    for number in range(count):
        topic, kind = number % TOPICS, number // TOPICS
        events = lh.stream(f"topic-{topic}", key="id string", schema="kind string, amount bigint, note string")
        name = f"table_{number}"
        by_id = events.group_by("id")
        tables.append(
            (
                by_id.agg(n=lh.count()).table(name),
                events.latest(name),
                by_id.agg(total=lh.sum("amount")).table(name),
            )[kind % 3]
        )
    return lh.app(*tables)


class Arrivals:
    """How many records bronze and all tables have taken in."""

    def __init__(self) -> None:
        self.counted = {"tick": 0, "batch": 0}
        self._changed = threading.Condition()

    def listen(self, event: JobEvent) -> None:
        with self._changed:
            if event.kind in self.counted:
                self.counted[event.kind] += event.records
                self._changed.notify_all()

    def until(self, kind: str, records: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.counted[kind] >= records, PATIENCE_SECONDS):
                raise SystemExit(f"{records} records, and after {PATIENCE_SECONDS:g} s only {self.counted}")


def measured(count: int, batches: int, records: int) -> tuple[float, list[float]]:
    """Return the seconds until the first batch is in so many new tables, and those of each batch after it."""
    dice, app, seconds = random.Random(7), application(count), []
    topics = min(count, TOPICS)
    with lake_and_broker() as (settings, broker):
        cluster = Cluster(broker.bootstrap_servers)
        for topic in range(topics):
            cluster.create(f"topic-{topic}", 1)
        lake, arrivals, stop = Lake(settings=settings), Arrivals(), threading.Event()
        _ = lake.spark
        job = threading.Thread(target=lambda: lake.run(app, stop=stop, listen=arrivals.listen))
        for number in range(batches + 2):
            began = time.monotonic()
            for topic in range(topics):
                each = (record(n, dice) for n in range(records // topics))
                produce(broker.bootstrap_servers, {}, f"topic-{topic}", each)
            if number == 0:
                job.start()
            # A record counts once for each table.
            arrivals.until("batch", (number + 1) * (records // topics) * count)
            seconds.append(time.monotonic() - began)
        stop.set()
        job.join()
        counted = lake.read(app.tables[0]).agg({"n": "sum"}).first()
        expected = (batches + 2) * (records // topics)
        if counted is None or counted[0] != expected:
            raise SystemExit(f"the counts add up to {counted}, expected {expected}")
    return seconds[0], seconds[2:]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tables", type=int, nargs="+", default=[1, 10, 50])
    arguments.add_argument("--batches", type=int, default=5)
    arguments.add_argument("--records", type=int, default=1000)
    chosen = arguments.parse_args()
    shown = []
    for count in chosen.tables:
        first, seconds = measured(count, chosen.batches, chosen.records)
        middle = statistics.median(seconds)
        shown.append(
            [str(count), f"{first:.2f}", f"{middle:.2f}", f"{max(seconds):.2f}", f"{middle / count:.3f}"]
        )  # fmt: skip
    title = f"{chosen.records:,} records of {TOPICS} topics: seconds, medians of {chosen.batches} batches"
    show(title, ["tables", "new tables, the first batch", "a batch", "largest", "a table"], shown)


if __name__ == "__main__":
    main()
