"""Rehydrate: 1,000,000 small JSON records of bronze, 4 partitions, into a Kafka topic, and on after an interruption.

    .venv/bin/python benchmarks/rehydrate.py [--records N] [--bytes N]

Bronze is written here without Spark, ten ticks, before the clock starts; the embedded broker runs already. The memory
is the largest that this process had; the broker, and what writes bronze, are other processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import time

import pyarrow as pa
from common import lake_and_broker, show
from deltalake import CommitProperties, Transaction, write_deltalake

from lakehouse.lake.commit_metadata import BronzeTick, CommitMetadata, CommitNumber, TopicState, app_id, write_metadata
from lakehouse.lake.place import INGEST
from lakehouse.run.lake import Lake

TOPIC = "events"
PARTITIONS = 4
TICKS = 10
T_US = 1_700_000_000_000_000


def write(root: str, count: int, size: int) -> None:
    """Write a bronze of so many records, with values of about so many bytes."""
    dice = random.Random(7)
    each = count // TICKS // PARTITIONS
    for tick in range(1, TICKS + 1):
        offsets = [n for _ in range(PARTITIONS) for n in range((tick - 1) * each, tick * each)]
        partitions = [p for p in range(PARTITIONS) for _ in range(each)]
        note = "a note of some length, as they are in real life"
        tails = [dice.randbytes(max(0, size - 90) // 2).hex() for _ in offsets]
        texts = zip(offsets, tails, strict=True)
        values = [f'{{"kind":"click","amount":{n},"note":"{note}{tail}"}}'.encode() for n, tail in texts]
        times = pa.array([T_US + n * 1000 for n in offsets], pa.timestamp("us", "UTC"))
        rows = len(offsets)
        table = pa.table(
            {
                "topic": [TOPIC] * rows, "topic_id": ["an-id"] * rows, "partition": pa.array(partitions, pa.int32()),
                "offset": offsets, "timestamp": times, "timestamp_type": pa.array([0] * rows, pa.int32()),
                "headers": pa.array([None] * rows, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
                "key": [f"k{dice.randrange(100_000)}".encode() for _ in offsets], "value": values,
                "tick": [tick] * rows, "order_time": times,
            }
        )  # fmt: skip
        following = dict.fromkeys(range(PARTITIONS), tick * each)
        content = BronzeTick(topics={TOPIC: TopicState("an-id", following)}, run="run")
        text = write_metadata(CommitMetadata(content, CommitNumber(app_id(INGEST), 0, tick, f"{tick}")))
        commit = CommitProperties({"userMetadata": text}, app_transactions=[Transaction(app_id(INGEST), tick)])
        place = f"{root}/bronze/records"
        write_deltalake(place, table, mode="append", partition_by=["topic"], commit_properties=commit)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--bytes", type=int, default=90)
    chosen = arguments.parse_args()
    with lake_and_broker() as (settings, _):
        writer = multiprocessing.get_context("spawn").Process(
            target=write, args=(settings.lake.path, chosen.records, chosen.bytes)
        )
        writer.start()
        writer.join()
        lake = Lake(settings=settings)
        rows = []
        for name, steps in (
            ("from nothing", [None]),
            ("half was there", [TICKS // 2, None]),
            ("all was there", [None]),
        ):
            to = "copy-2" if steps[0] else "copy-1"
            for tick in steps:
                began = time.monotonic()
                done = lake.rehydrate(TOPIC, to, tick=tick)
                seconds = time.monotonic() - began
            rate = f"{done.written / seconds:,.0f}" if done.written else ""
            rows.append([name, f"{done.written:,}", f"{seconds:.1f}", rate])
        if done.records != chosen.records or not all(of.keeps_offsets for of in done.moved):
            raise SystemExit(f"{done} is not what bronze has")
        title = f"rehydrate of {done.records:,} records of {chosen.bytes} bytes, {PARTITIONS} partitions, {TICKS} ticks"
        show(title, ["run", "records written", "seconds", "records a second"], rows)
        print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()
