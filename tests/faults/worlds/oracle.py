"""What tables and topics must hold, from what Kafka has: plain Python, which shares no code with lakehouse.

Topics are drained as a reader of committed records sees them, Delta tables are read by deltalake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable

WINDOW_MS = 10_000
Rows = dict[Any, Any]


class Stored(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def drain(servers: str, topic: str) -> list[Stored]:
    """Return the committed records of a topic, by partition and offset."""
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
                records.append(Stored(*place, message.key(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise AssertionError(f"topic {topic}: {message.error()}")
        return sorted(records, key=lambda record: record[:2])
    finally:
        consumer.close()


BAD = object()


def read_value(value: bytes | None, types: Mapping[str, type]) -> Any:
    """Return the fields of a record, None for a tombstone, BAD for what does not fit."""
    if value is None:
        return None
    try:
        fields = json.loads(value)
    except ValueError:
        return BAD
    if not isinstance(fields, dict):
        return BAD
    row = {name: fields.get(name) for name in types}
    fits = all(item is None or type(item) is types[name] for name, item in row.items())
    return row if fits else BAD


ORDER = {"customer": str, "amount": int, "note": str}
TYPES: dict[str, dict[str, type]] = {"orders": ORDER, "clicks": {"page": str}, "users": {"city": str}}
SMALL = 900  # orders of this amount and more, and of none, are not what is expected


class Taken(NamedTuple):
    """A record in bronze, with the tick in which it came and its order time; sorted, the order of the lake."""

    tick: int
    order_time: int
    topic: str
    record: Stored


def row_of(topic: str, record: Stored) -> Any:
    """Return the fields of a record, None for a tombstone, BAD for one that does not fit or is not as expected."""
    row = read_value(record.value, TYPES[topic])
    is_unexpected = topic == "orders" and isinstance(row, dict) and (row["amount"] is None or row["amount"] >= SMALL)
    return BAD if is_unexpected else row


def bad_places(topic: str, records: Iterable[Stored]) -> list[tuple[int, int]]:
    return [record[:2] for record in records if row_of(topic, record) is BAD]


def good(taken: Iterable[Taken], *topics: str) -> Iterator[tuple[str, str, int, Any]]:
    """Yield topic, key, time and fields (None for a tombstone) of the good records with a key, in the lake's order."""
    for _, _, topic, record in taken:
        if topic in topics and record.key is not None and (row := row_of(topic, record)) is not BAD:
            yield topic, record.key.decode(), record.timestamp, row


def last_rows(taken: Iterable[Taken], topic: str) -> Rows:
    rows: Rows = {}
    for _, key, _, row in good(taken, topic):
        rows.pop(key, None)
        if row is not None:
            rows[key] = row
    return rows


def latest_orders(taken: Iterable[Taken]) -> Rows:
    return last_rows(taken, "orders")


def users(taken: Iterable[Taken]) -> Rows:
    return last_rows(taken, "users")


def newest_orders(taken: Iterable[Taken]) -> Rows:
    """The orders of the latest event time; of one time the last."""
    newest: dict[str, tuple[int, Any]] = {}
    for _, key, time, row in good(taken, "orders"):
        if key not in newest or newest[key][0] <= time:
            newest[key] = time, row
    return {key: row for key, (_, row) in newest.items() if row is not None}


def order_states(taken: Iterable[Taken]) -> Rows:
    """Who ordered, from when on until when: one row while the customer is the same."""
    by_key: dict[str, dict[int, Any]] = {}
    for _, key, time, row in good(taken, "orders"):
        by_key.setdefault(key, {})[time] = row
    rows: Rows = {}
    for key, states in by_key.items():
        begin: int | None = None
        for time in sorted(states):
            row = states[time]
            if begin is not None and row is not None and rows[key, begin]["customer"] == row["customer"]:
                continue
            if begin is not None:
                rows[key, begin]["valid_to"] = time
            begin = None if row is None else time
            if row is not None:
                rows[key, time] = {"valid_to": None, "customer": row["customer"]}
    return rows


def totals(taken: Iterable[Taken]) -> Rows:
    rows: Rows = {}
    for _, _, _, row in good(taken, "orders"):
        if row is None or row["customer"] is None:
            continue
        one = rows.setdefault(row["customer"], {"n": 0, "total": 0, "most": row["amount"], "twice": 0})
        one["n"] += 1
        one["total"] += row["amount"]
        one["most"] = max(one["most"], row["amount"])
        one["twice"] += 2 * row["amount"]
    return rows


def sizes(taken: Iterable[Taken]) -> Rows:
    """How many customers have a number of orders; `table_rows` leaves out numbers that nobody has any more."""
    counts: Rows = {}
    for row in totals(taken).values():
        counts[row["n"]] = {"customers": counts.get(row["n"], {"customers": 0})["customers"] + 1}
    return counts


def visits(taken: Iterable[Taken]) -> Rows:
    rows: Rows = {}
    for _, key, time, row in good(taken, "clicks"):
        if row is not None:
            one = rows.setdefault((key, time // WINDOW_MS * WINDOW_MS), {"n": 0})
            one["n"] += 1
    return rows


def final_visits(taken: Iterable[Taken]) -> Rows:
    """The visits in windows that have closed: all but those of the last time."""
    rows = visits(taken)
    last = max((window for _, window in rows), default=0)
    return {key: row for key, row in rows.items() if key[1] != last}


def cities(taken: Iterable[Taken]) -> Rows:
    """How many clicks came from a city: that which the user had when the click arrived."""
    rows: Rows = {}
    city_of: dict[str, str | None] = {}
    for topic, key, _, row in good(taken, "clicks", "users"):
        if topic == "users":
            city_of[key] = None if row is None else row["city"]
        elif row is not None and (city := city_of.get(key)) is not None:
            rows.setdefault(city, {"n": 0})["n"] += 1
    return rows


FOLDS = {
    "latest_orders": latest_orders, "newest_orders": newest_orders, "order_states": order_states, "totals": totals,
    "sizes": sizes, "visits": visits, "final_visits": final_visits, "cities": cities, "users": users,
}  # fmt: skip
KEYS = {
    "latest_orders": ("id",), "newest_orders": ("id",), "order_states": ("id", "valid_from"), "totals": ("customer",),
    "sizes": ("n",), "visits": ("user", "window_start"), "final_visits": ("user", "window_start"),
    "cities": ("of_city",), "users": ("user",),
}  # fmt: skip


def table_rows(path: Path, name: str, version: int | None = None) -> Rows:
    """Return the visible rows of a Delta table by key; without those of `sizes` that count nobody."""
    rows: Rows = {}
    for row in DeltaTable(str(path), version=version).to_pyarrow_table().to_pylist():
        key = tuple(_plain(row[column]) for column in KEYS[name])
        rows[key if len(key) > 1 else key[0]] = _values(row, name)
    return _without_empty(rows)


def _values(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    hidden = (*KEYS[name], "window_end")
    return {column: _plain(item) for column, item in row.items() if column not in hidden and not column.startswith("_")}


def _without_empty(rows: Rows) -> Rows:
    return {key: row for key, row in rows.items() if row.get("customers") != 0}


def _plain(value: Any) -> Any:
    """Return a value as the folds have it: times as milliseconds, decimals as integers."""
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1000)
    return int(value) if type(value).__name__ == "Decimal" else value


def replayed_feed(path: Path, name: str) -> Rows:
    """Return the rows that the change data feed gives from the first version on."""
    feed = DeltaTable(str(path)).load_cdf(starting_version=0, allow_out_of_range=True)
    changes = pa.table(feed.read_all()).to_pylist()
    order = {"delete": 0, "update_preimage": 1, "insert": 2, "update_postimage": 2}
    rows: Rows = {}
    for change in sorted(changes, key=lambda item: (item["_commit_version"], order[item["_change_type"]])):
        key = tuple(_plain(change[column]) for column in KEYS[name])
        plain_key = key if len(key) > 1 else key[0]
        if change["_change_type"] in ("delete", "update_preimage"):
            rows.pop(plain_key, None)
        else:
            rows[plain_key] = _values(change, name)
    return _without_empty(rows)


def commit_ticks(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the versions of a table that say their tick, with it."""
    for file in sorted((path / "_delta_log").glob("0*.json")):
        for line in file.read_text().splitlines():
            text = json.loads(line).get("commitInfo", {}).get("userMetadata")
            metadata = json.loads(text) if text else {}
            if "tick" in metadata and "operation" not in metadata:
                yield int(file.stem), metadata["tick"]


def bronze_records(path: Path) -> list[Taken]:
    """Return the records of a table of bronze, or of a quarantine, in the order of the lake.

    Where a topic gets partitions, the records of a key lie in several of them: only the lake says which came first.
    """
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(
        Taken(
            row["tick"],
            _plain(row["order_time"]),
            row["topic"],
            Stored(row["partition"], row["offset"], _plain(row["timestamp"]), row["key"], row["value"]),
        )
        for row in rows
    )


def folded_topic(records: Iterable[Stored]) -> Rows:
    """Return the last value of each key of a published topic; a null value deletes."""
    rows: Rows = {}
    for record in records:
        key = (record.key or b"").decode()
        rows.pop(key, None)
        if record.value is not None:
            rows[key] = json.loads(record.value)
    return rows
