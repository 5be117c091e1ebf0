"""Catch-up: 1,000,000 JSON records, 100,000 keys, 4 partitions: Kafka -> bronze -> silver (latest and count).

    .venv/bin/python benchmarks/catch_up.py [--records N]

Spark's start is measured apart. The tables are checked at the end: the counts add up to the records.
"""

from __future__ import annotations

import argparse
import random
import time

from common import TOPIC, app, lake_and_broker, record, show

from lakehouse.kafka.produce import produce
from lakehouse.run.lake import Lake
from lakehouse.run.watch.event import JobEvent


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    count = arguments.parse_args().records
    dice = random.Random(7)
    with lake_and_broker() as (settings, broker):
        produce(broker.bootstrap_servers, {}, TOPIC, (record(n, dice) for n in range(count)))
        lake = Lake(settings=settings)
        began = time.monotonic()
        _ = lake.spark
        spark_seconds = time.monotonic() - began
        seen: list[tuple[JobEvent, float]] = []
        began = time.monotonic()
        lake.run(app, until="caught_up", listen=lambda event: seen.append((event, time.monotonic() - began)))
        total = time.monotonic() - began
        bronze = max(at for event, at in seen if event.kind == "tick")
        counted = lake.read(app.table("counts")).agg({"n": "sum"}).first()
        if counted is None or counted[0] != count:
            raise SystemExit(f"the counts add up to {counted}, expected {count}")
        show(
            f"catch-up of {count:,} JSON records, {len({e.tick for e, _ in seen})} ticks",
            ["part", "seconds", "records a second"],
            [
                ["Spark's start (apart)", f"{spark_seconds:.1f}", ""],
                ["Kafka -> bronze", f"{bronze:.1f}", f"{count / bronze:,.0f}"],
                ["bronze -> silver, 2 tables", f"{total - bronze:.1f}", f"{count / (total - bronze):,.0f}"],
                ["all", f"{total:.1f}", f"{count / total:,.0f}"],
            ],
        )
        lake.spark.stop()


if __name__ == "__main__":
    main()
