"""One key out of bronze: 3,000,000 records, 100,000 keys, 300 ticks; as ticks wrote it, and laid out by key.

    .venv/bin/python benchmarks/one_key.py [--records N] [--ticks N]

Bronze is written without Kafka: its rows and its commits, one file a tick. The ten ticks are from the middle of the
history: what a read of the past, or a backfill, asks for. "Of" are the rows of the row groups that must be looked at.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from common import KEYS, TOPIC, record, show
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.semantics.commit_number import Progress
from lakehouse.settings.config import load
from lakehouse.spark.bronze import bronze, compaction
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session

COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "tick", "order_time"]
PARTITIONS = 2
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "topic": pa.string(), "topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": MOMENT, "timestamp_type": pa.int32(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        "key": pa.binary(), "value": pa.binary(), "tick": pa.int64(), "order_time": MOMENT,
    }
)  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=3_000_000)
    arguments.add_argument("--ticks", type=int, default=300)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as folder:
        layout = Layout(folder)
        fill(layout, given.records, given.ticks)
        rows = [measured(layout, given.ticks, "as ticks wrote it")]
        spark = open_session(load(environ={"LAKEHOUSE_LAKE_PATH": folder}))
        began = time.monotonic()
        compaction.cluster_files(open_lake(spark, layout))
        took = time.monotonic() - began
        rows.append(measured(layout, given.ticks, "laid out by key"))
        show(
            f"one key of {given.records:,} records in {given.ticks} ticks; laying them out took {took:.1f} s",
            ["bronze", "files", "MB", "one key (s)", "of", "ten ticks (s)", "of"],
            rows,
        )
        spark.stop()


def fill(layout: Layout, records: int, ticks: int) -> None:
    """Write the ticks."""
    dice = random.Random(7)
    DeltaTable.create(layout.records, SCHEMA, partition_by=["topic"], configuration=bronze.PROPERTIES)
    each = records // ticks
    for tick in range(1, ticks + 1):
        made = [record(n, dice) for n in range((tick - 1) * each, tick * each)]
        times = [1_700_000_000_000_000 + 1000 * n for n in range((tick - 1) * each, tick * each)]
        moments = pa.array(times, pa.timestamp("us", "UTC"))
        columns = {
            "topic": [TOPIC] * each, "topic_id": ["id"] * each,
            "partition": pa.array([n % PARTITIONS for n in range(each)], pa.int32()),
            "offset": [n // PARTITIONS for n in range((tick - 1) * each, tick * each)],
            "timestamp": moments, "timestamp_type": pa.array([0] * each, pa.int32()),
            "headers": pa.nulls(each, SCHEMA.field("headers").type),
            "key": [item.key for item in made], "value": [item.value for item in made], "tick": [tick] * each,
            "order_time": moments,
        }  # fmt: skip
        rows = pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names}, SCHEMA)
        number = Transaction("lakehouse.ingest", Progress(1, tick).version)
        write_deltalake(
            layout.records, rows, mode="append", target_file_size=1 << 28,
            commit_properties=CommitProperties(app_transactions=[number]),
        )  # fmt: skip


def measured(layout: Layout, ticks: int, what: str) -> list[str]:
    """Time reads of a key and of ten ticks, and count the rows of the row groups that they can't leave out."""
    dice = random.Random(11)
    keys = [f"k{dice.randrange(KEYS)}".encode() for _ in range(7)]
    one_key = [ds.field("key") == key for key in keys]
    middle = ticks // 2
    ten = [(ds.field("tick") > middle) & (ds.field("tick") <= middle + 10)] * 3
    rows = reader.open_dataset(layout.records)
    files = list(rows.get_fragments())
    size = sum(Path(layout.root, "bronze/records", f.path).stat().st_size for f in files)
    cells = [what, str(len(files)), f"{size / 2**20:.0f}"]
    for wanted in (one_key, ten):
        seconds = statistics.median(timed(lambda each=each: read(layout, each)) for each in wanted)
        cells += [f"{seconds:.2f}", f"{scanned(rows, wanted[0]):,}"]
    return cells


def read(layout: Layout, wanted: ds.Expression) -> None:
    reader.open_dataset(layout.records).to_table(columns=COLUMNS, filter=(ds.field("topic") == TOPIC) & wanted)


def scanned(rows: ds.Dataset, wanted: ds.Expression) -> int:
    """The rows of the row groups that statistics do not leave out."""
    groups = [g for f in rows.get_fragments(wanted) for g in f.split_by_row_group(wanted)]
    return sum(part.num_rows for group in groups for part in group.row_groups)


def timed(run: Callable[[], None]) -> float:
    began = time.monotonic()
    run()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
