"""Without Spark: confluent-kafka reads, delta-rs appends a bronze table and merges silver. One argument: see `work.py`.

What one would write in Python alone: one process, batches of 500,000 records. What it does not do: it keeps no bad
records (one ends it), no tombstones, no position beside a row; a kill between its two commits loses a batch of silver,
and one before its offsets are committed doubles a batch. Merging reads the whole table into memory.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable, write_deltalake
from work import PARTITIONS, TOPIC, VALUES, Work

BATCH = 500_000
SILVER = pa.schema(
    [
        ("id", pa.string()), ("n", pa.int64()), ("kind", pa.string()), ("amount", pa.int64()),
        ("at", pa.timestamp("us", "UTC")), ("place", pa.string()), ("note", pa.string()),
    ]
)  # fmt: skip
PARSED = pj.ParseOptions(explicit_schema=pa.schema([SILVER.field(name) for name in VALUES]))


def read(consumer: Consumer, most: int) -> pa.Table:
    """Return the next records, as many as there are up to `most`."""
    columns: dict[str, list[object]] = {name: [] for name in ("key", "value", "partition", "offset", "timestamp")}
    left = most
    while left:
        for message in consumer.consume(min(left, 50_000), 5.0):
            if message.error():
                raise SystemExit(f"Kafka: {message.error()}")
            row = message.key(), message.value(), message.partition(), message.offset(), message.timestamp()[1]
            for column, cell in zip(columns.values(), row, strict=True):
                column.append(cell)
            left -= 1
    return pa.table(
        {
            "key": pa.array(columns["key"], pa.binary()), "value": pa.array(columns["value"], pa.binary()),
            "partition": pa.array(columns["partition"], pa.int32()), "offset": pa.array(columns["offset"], pa.int64()),
            "timestamp": pa.array(columns["timestamp"], pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        }
    )  # fmt: skip


def folded(records: pa.Table) -> pa.Table:
    """Count each key's records and take its last values. A key has one partition, so the last one read is the last."""
    values = pj.read_json(pa.py_buffer(b"\n".join(records["value"].to_pylist())), parse_options=PARSED)
    rows = values.append_column("id", records["key"].cast(pa.string()))
    last = [(name, "last", pc.ScalarAggregateOptions(skip_nulls=False)) for name in VALUES]
    rows = rows.group_by("id", use_threads=False).aggregate([([], "count_all"), *last])
    rows = rows.rename_columns([name.removesuffix("_last").replace("count_all", "n") for name in rows.column_names])
    return rows.select(SILVER.names).cast(SILVER)


def run(work: Work) -> None:
    settings = {"bootstrap.servers": work.servers, "group.id": work.folder, "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 10, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    changes = {"delta.enableChangeDataFeed": "true"}
    DeltaTable.create(str(work.silver), SILVER, configuration=changes)
    done = 0
    while done < work.records:
        records = read(consumer, min(BATCH, work.records - done))
        done += len(records)
        write_deltalake(str(work.bronze), records, mode="append")
        merging = DeltaTable(str(work.silver)).merge(folded(records), "t.id = s.id", source_alias="s", target_alias="t")
        changed = {"n": "t.n + s.n", **{name: f"s.{name}" for name in VALUES}}
        merging.when_matched_update(changed).when_not_matched_insert_all().execute()
        consumer.commit(asynchronous=False)
    consumer.close()


def main() -> None:
    began = time.time()
    run(Work.of(sys.argv[1]))
    print(json.dumps({"began": began * 1000, "ready": began * 1000}))


if __name__ == "__main__":
    main()
