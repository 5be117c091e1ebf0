"""The audit of a topic of 1,000,000 JSON records, 100,000 keys, 4 partitions, with tables of several kinds.

    .venv/bin/python benchmarks/audit.py [--records N]

Making the lake is not measured. Every audit is checked: it is ok, and the fates add up to the records.
"""

from __future__ import annotations

import argparse
import random
import time

from common import TOPIC, lake_and_broker, record, show

import lakehouse as lh
from lakehouse.kafka.produce import produce
from lakehouse.run.lake import Lake

events = lh.stream(TOPIC, key="id string", schema="kind string, amount bigint, note string")
app = lh.app(
    events.latest("latest"),
    events.group_by("id").agg(n=lh.count()).table("counts"),
    events.group_by("id").window(lh.tumbling("1 minute", grace="1 minute")).agg(n=lh.count()).table("tumbling"),
)
START_MS = 1_700_000_000_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    count = arguments.parse_args().records
    dice = random.Random(7)
    with lake_and_broker() as (settings, broker):
        made = (record(n, dice, START_MS + n - dice.randrange(200_000)) for n in range(count))
        produce(broker.bootstrap_servers, {}, TOPIC, made)
        lake = Lake(settings=settings)
        lake.run(app, until="caught_up")
        rows = []
        for table in app.tables:
            seconds = []
            for deep in (False, True):
                began = time.monotonic()
                found = lake.audit(app, table, deep=deep)
                seconds.append(time.monotonic() - began)
                if not found.ok or sum(found.fates.values()) != count:
                    raise SystemExit(f"{table.name}: {found.fates}, {[str(problem) for problem in found.problems]}")
            fates = ", ".join(f"{fate} {number:,}" for fate, number in found.fates.items())
            rows.append([table.name, f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", fates])
        show(f"audit of {count:,} JSON records", ["table", "audit (s)", "--deep (s)", "fates"], rows)
        lake.spark.stop()


if __name__ == "__main__":
    main()
