"""The proof: recompute the demo's tables from Kafka, with other code than the lakehouse's, and compare.

    python lakehouse/demo/independent_fold.py --bootstrap HOST:PORT --lake FOLDER [--option KEY=VALUE ...]

Run it by its path. It imports nothing of this project and no Spark: a Kafka consumer, plain dictionaries, and
the deltalake reader. It reads the topics from their beginning to where they end when it starts, and checks

    tables   each row and visible column (no leading underscore) of <lake>/silver/<table> against its own fold
    bronze   <lake>/bronze/records has each record of Kafka once, no other, with its key, value and timestamp

``--option`` is any librdkafka setting, for TLS and SASL. The result is JSON on stdout; progress is on stderr.
Exit code: 0 everything is equal, 1 something differs, 2 it can't be told (no Kafka, no topic, no lake).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

TOPICS = ("flights", "airborne", "planes")
EXAMPLES = 5
STALLED_SECONDS = 30.0

Row = dict[str, Any]
Table = dict[str, Row]
"""Rows by tail number."""
Partition = tuple[str, int]
Digests = dict[Partition, dict[int, int]]
"""Per partition and offset: a hash of key, value and timestamp in milliseconds."""


class CannotTell(Exception):
    """There is nothing to compare: no Kafka, no topic, no table. The message says which."""


class Fold:
    """The four tables, folded record by record; a key's records come in order, as it has one partition."""

    def __init__(self) -> None:
        self.location: Table = {}
        self.visits: Table = {}
        self.latest: dict[str, dict[bytes, bytes]] = {"airborne": {}, "planes": {}}

    def add(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. A null key reaches no table; a null value deletes from ``latest``."""
        if key is None:
            return
        if topic == "flights":
            if value is not None:
                self._add_flight(key.decode(), json.loads(value))
        elif value is None:
            self.latest[topic].pop(key, None)
        else:
            self.latest[topic][key] = value

    def tables(self) -> dict[str, Table]:
        """Every table by its name; times are ISO-8601 text, as in the records."""
        folded = {"location": self.location, "visits": self.visits}
        for name, rows in self.latest.items():
            planes = {key.decode(): json.loads(value) for key, value in rows.items()}
            folded[name] = {plane: {"tailnum": plane, **row} for plane, row in planes.items()}
        return folded

    def _add_flight(self, plane: str, flight: Row) -> None:
        if flight["cancelled"]:
            return
        self.location[plane] = {"tailnum": plane} | {name: flight[name] for name in ("dest", "departed_at")}
        visits = self.visits.setdefault(plane, {"tailnum": plane, "flights": 0, "miles": 0})
        visits["flights"] += 1
        visits["miles"] += flight["distance"] or 0


def drain(settings: Mapping[str, str]) -> tuple[Fold, Digests, dict[Partition, int]]:
    """Read the topics whole: the fold, every record's digest, and how many offsets each partition spans."""
    consumer = Consumer(
        {
            "group.id": "independent-fold",  # never joined: partitions are assigned, nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "max.partition.fetch.bytes": 8_000_000,
            "queued.max.messages.kbytes": 262_144,
            **settings,
        }
    )
    try:
        known = consumer.list_topics(timeout=30).topics
        missing = [topic for topic in TOPICS if topic not in known]
        if missing:
            raise CannotTell(f"Kafka has no topic {', '.join(missing)}: load the demo's topics first")
        spans = {
            (topic, number): consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for topic in TOPICS
            for number in known[topic].partitions
        }
        consumer.assign([TopicPartition(*partition, low) for partition, (low, _) in spans.items()])
        fold, digests = _consume(consumer, {partition: high for partition, (_, high) in spans.items()})
    finally:
        consumer.close()
    return fold, digests, {partition: high - low for partition, (low, high) in spans.items()}


def _consume(consumer: Consumer, ends: dict[Partition, int]) -> tuple[Fold, Digests]:
    fold = Fold()
    digests: Digests = {partition: {} for partition in ends}
    unfinished = {partition for partition, end in ends.items() if end > 0}
    heard = time.monotonic()
    while unfinished:
        for message in consumer.consume(20_000, 1.0):
            heard = time.monotonic()
            error, partition = message.error(), cast("Partition", (message.topic(), message.partition()))
            offset = cast("int", message.offset())
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                unfinished.discard(partition)
            elif offset < ends[partition]:
                key, value = message.key(), message.value()
                digests[partition][offset] = hash((key, value, message.timestamp()[1]))
                fold.add(partition[0], key, value)
            else:  # written after we started
                unfinished.discard(partition)
        if time.monotonic() - heard > STALLED_SECONDS:
            unread = ", ".join(f"{topic}/{number}" for topic, number in sorted(unfinished))
            raise CannotTell(f"no record for {STALLED_SECONDS:.0f} seconds; not at the end: {unread}")
    return fold, digests


def compare_table(expected: Table, found: list[Row]) -> Row:
    """Compare one table's rows, visible columns only: counts, up to five examples of each kind, ``equal``."""
    visible = [{name: _plain(cell) for name, cell in row.items() if name[0] != "_"} for row in found]
    rows = {row["tailnum"]: row for row in visible}
    missing = sorted(expected.keys() - rows.keys())
    extra = sorted(rows.keys() - expected.keys())
    different = sorted(key for key in expected.keys() & rows.keys() if expected[key] != rows[key])
    return {
        "equal": not missing and not extra and not different and len(found) == len(expected),
        "rows_expected": len(expected),
        "rows_found": len(found),
        "missing": len(missing),
        "extra": len(extra),
        "different": len(different),
        "duplicate": len(found) - len(rows),
        "examples": {
            "missing": [expected[key] for key in missing[:EXAMPLES]],
            "extra": [rows[key] for key in extra[:EXAMPLES]],
            "different": [{"expected": expected[key], "found": rows[key]} for key in different[:EXAMPLES]],
        },
    }


def compare_bronze(drained: Digests, bronze: Iterator[tuple[Partition, int, int]]) -> dict[str, Row]:
    """Account for every offset of every partition; ``bronze``: partition, offset, digest, in any order."""
    seen: dict[Partition, set[int]] = {partition: set() for partition in drained}
    duplicate: dict[Partition, list[int]] = {partition: [] for partition in drained}
    different: dict[Partition, list[int]] = {partition: [] for partition in drained}
    extra: dict[Partition, list[int]] = {partition: [] for partition in drained}
    for partition, offset, digest in bronze:
        if partition not in drained:
            raise CannotTell(f"bronze has partition {partition}, Kafka does not")
        wanted = drained[partition].get(offset)
        if offset in seen[partition]:
            duplicate[partition].append(offset)
        elif wanted is None:
            extra[partition].append(offset)
        elif wanted != digest:
            different[partition].append(offset)
        seen[partition].add(offset)
    report: dict[str, Row] = {}
    for partition in sorted(drained):
        missing = sorted(drained[partition].keys() - seen[partition])
        faults = {
            "missing": missing,
            "extra": extra[partition],
            "different": different[partition],
            "duplicate": duplicate[partition],
        }
        report[f"{partition[0]}/{partition[1]}"] = {
            "equal": not any(faults.values()),
            "offsets_kafka": len(drained[partition]),
            "offsets_bronze": len(seen[partition]),
            **{name: len(offsets) for name, offsets in faults.items()},
            "examples": {name: offsets[:EXAMPLES] for name, offsets in faults.items() if offsets},
        }
    return report


def read_silver(lake: str, table: str) -> list[Row]:
    """All rows of one silver table."""
    return [row for batch in _query(f"{lake}/silver/{table}", "SELECT * FROM t") for row in batch.to_pylist()]


def read_bronze(lake: str, topic_ids: Mapping[str, str]) -> Iterator[tuple[Partition, int, int]]:
    """Partition, offset and digest of every bronze record of the topics as they are now.

    Records of an earlier topic of the same name have another topic id; they are ignored.
    """
    wanted = " OR ".join(f"(topic = '{topic}' AND topic_id = '{uid}')" for topic, uid in topic_ids.items())
    columns = 'topic, partition, "offset", key, value, "timestamp"'
    for batch in _query(f"{lake}/bronze/records", f"SELECT {columns} FROM t WHERE {wanted}"):
        times = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        names = ("topic", "partition", "offset", "key", "value")
        cells = [*(batch.column(name).to_pylist() for name in names), times.to_pylist()]
        for topic, number, offset, key, value, timestamp_ms in zip(*cells, strict=True):
            yield (topic, number), offset, hash((key, value, timestamp_ms))


def _query(path: str, sql: str) -> Iterator[Any]:
    try:
        for batch in QueryBuilder().register("t", DeltaTable(path)).execute(sql):
            yield pa.record_batch(batch)
    except DeltaError as error:
        raise CannotTell(f"can't read the Delta table {path}: {error}") from error


def _plain(cell: Any) -> Any:
    """A cell as the records have it: a time as ISO-8601 text in UTC, anything else as it is."""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return cell


def _topic_ids(settings: Mapping[str, str]) -> dict[str, str]:
    admin = AdminClient(dict(settings))  # held until the answers are in: they would end with it
    described = admin.describe_topics(TopicCollection(list(TOPICS)), request_timeout=30)
    # Kafka's own tools print an id in base64's form for URLs, the client in the other one.
    ids = {topic: str(answer.result().topic_id) for topic, answer in described.items()}
    return {topic: text.replace("+", "-").replace("/", "_") for topic, text in ids.items()}


def prove(lake: str, settings: Mapping[str, str]) -> Row:
    """The whole comparison as one JSON-ready value; its ``equal`` is the verdict."""
    started = time.monotonic()
    fold, drained, spans = drain(settings)
    records = sum(map(len, drained.values()))
    drain_seconds = time.monotonic() - started
    print(f"{records:,} records drained and folded in {drain_seconds:.1f} s", file=sys.stderr)
    tables = {name: compare_table(rows, read_silver(lake, name)) for name, rows in fold.tables().items()}
    partitions = compare_bronze(drained, read_bronze(lake, _topic_ids(settings)))
    for partition, span in spans.items():
        # Offsets that Kafka gives to no reader: transaction marks, aborted or compacted records. These are no faults.
        partitions[f"{partition[0]}/{partition[1]}"]["gaps_in_kafka"] = span - len(drained[partition])
    return {
        "equal": all(part["equal"] for part in (*tables.values(), *partitions.values())),
        "records": records,
        "seconds": {"drain": round(drain_seconds, 1), "all": round(time.monotonic() - started, 1)},
        "tables": tables,
        "partitions": partitions,
    }


def main() -> int:
    """Read the arguments, print the JSON, give the exit code."""
    parser = argparse.ArgumentParser(description="Recompute the demo's tables from Kafka and compare.")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the Kafka brokers")
    parser.add_argument("--lake", required=True, metavar="FOLDER", help="has bronze/ and silver/")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="for librdkafka")
    arguments = parser.parse_args()
    if not all("=" in option for option in arguments.option):
        parser.error("--option: expected KEY=VALUE, such as security.protocol=SSL")
    settings = dict(option.split("=", 1) for option in arguments.option)
    try:
        report = prove(arguments.lake.rstrip("/"), {"bootstrap.servers": arguments.bootstrap, **settings})
    except (CannotTell, KafkaException) as error:
        print(f"can't tell: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2, default=str))
    return 0 if report["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
