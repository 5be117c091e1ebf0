"""Reads topics and Delta tables as plain Python values: shares no code with lakehouse.

Topics are drained as a reader of committed records sees them, Delta tables are read by deltalake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

Rows = dict[Any, Any]
TIMES = ("window_start", "window_end", "valid_from")
Place = tuple[str, int, int]  # topic id, partition, offset


class Stored(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    topic_id: str = ""

    @property
    def place(self) -> Place:
        return self.topic_id, self.partition, self.offset


class Taken(NamedTuple):
    """A record in bronze, with the tick in which it came and its order time; sorted, the order of the lake."""

    tick: int
    order_time: int
    topic: str
    record: Stored


class Gap(NamedTuple):
    """Offsets that the lake says were lost. end: None if nobody knows."""

    topic_id: str
    partition: int
    begin: int
    end: int | None

    def covers(self, place: Place) -> bool:
        is_here = place[:2] == (self.topic_id, self.partition) and place[2] >= self.begin
        return is_here and (self.end is None or place[2] < self.end)


def drain(servers: str, topic: str) -> list[Stored]:
    """Return the committed records of a topic, by partition and offset."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    described = admin.describe_topics(TopicCollection([topic]))[topic].result()
    topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")
    consumer = Consumer(
        {
            "bootstrap.servers": servers, "group.id": "oracle", "enable.auto.commit": False, "log_level": 0,
            "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        records, open_partitions = [], set(partitions)
        while open_partitions:
            message = consumer.poll(30)
            if message is None:
                raise AssertionError(f"topic {topic}: Kafka is silent")
            if message.error() is None:
                place = message.partition(), message.offset(), message.timestamp()[1]
                records.append(Stored(*place, message.key(), message.value(), topic_id))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise AssertionError(f"topic {topic}: {message.error()}")
        return sorted(records, key=lambda record: record[:2])
    finally:
        consumer.close()


def folded_topic(records: Iterable[Stored]) -> Rows:
    """Return the last value of each key of a published topic; a null value deletes."""
    rows: Rows = {}
    for record in records:
        key = (record.key or b"").decode()
        rows.pop(key, None)
        if record.value is not None:
            rows[key] = json.loads(record.value)
    return rows


def rows_of(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a Delta table; none if there is no table."""
    if not (path / "_delta_log").is_dir():
        return []
    rows: list[dict[str, Any]] = DeltaTable(str(path), version=version).to_pyarrow_table().to_pylist()
    return rows


def bronze_records(path: Path) -> list[Taken]:
    """Return the records of a table of bronze, or of a quarantine, in the order of the lake.

    Where a topic gets partitions, the records of a key lie in several of them: only the lake says which came first.
    """
    return sorted(
        Taken(
            row["tick"],
            plain(row["order_time"]),
            row["topic"],
            Stored(row["partition"], row["offset"], plain(row["timestamp"]), row["key"], row["value"], row["topic_id"]),
        )
        for row in rows_of(path)
    )


def gaps(lake: Path) -> list[Gap]:
    names = ("topic_id", "partition", "from_offset", "to_offset")
    return [Gap(*(row[name] for name in names)) for row in rows_of(lake / "bronze/gaps")]


def table_rows(path: Path, keys: tuple[str, ...], version: int | None = None) -> Rows:
    """Return the visible rows of a table by key."""
    return rows_by_key(rows_of(path, version), keys)


def rows_by_key(rows: Iterable[dict[str, Any]], keys: tuple[str, ...]) -> Rows:
    """Return the visible columns of rows by key; without rows that count no customers."""
    return _without_empty({_key(row, keys): _values(row, keys) for row in rows})


def replayed_feed(path: Path, keys: tuple[str, ...]) -> Rows:
    """Return the rows that the change data feed gives from the first version on."""
    feed = DeltaTable(str(path)).load_cdf(starting_version=0, allow_out_of_range=True)
    changes = pa.table(feed.read_all()).to_pylist()
    order = {"delete": 0, "update_preimage": 1, "insert": 2, "update_postimage": 2}
    rows: Rows = {}
    for change in sorted(changes, key=lambda item: (item["_commit_version"], order[item["_change_type"]])):
        if change["_change_type"] in ("delete", "update_preimage"):
            rows.pop(_key(change, keys), None)
        else:
            rows[_key(change, keys)] = _values(change, keys)
    return _without_empty(rows)


def commit_ticks(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the versions of a table that say their tick, with it."""
    for file in sorted((path / "_delta_log").glob("0*.json")):
        for line in file.read_text().splitlines():
            text = json.loads(line).get("commitInfo", {}).get("userMetadata")
            metadata = json.loads(text) if text else {}
            if "tick" in metadata and "operation" not in metadata:
                yield int(file.stem), metadata["tick"]


def plain(value: Any) -> Any:
    """Return a value as the folds have it: times as milliseconds, decimals as integers."""
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1000)
    return int(value) if type(value).__name__ == "Decimal" else value


def _key(row: dict[str, Any], keys: tuple[str, ...]) -> Any:
    key = tuple(_time(row[column]) if column in TIMES else plain(row[column]) for column in keys)
    return key if len(key) > 1 else key[0]


def _time(value: Any) -> Any:
    """Return a time as milliseconds; the commands write it as a text."""
    return plain(datetime.fromisoformat(value) if isinstance(value, str) else value)


def _values(row: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    hidden = (*keys, "window_end")
    return {column: plain(item) for column, item in row.items() if column not in hidden and not column.startswith("_")}


def _without_empty(rows: Rows) -> Rows:
    return {key: row for key, row in rows.items() if row.get("customers") != 0}
