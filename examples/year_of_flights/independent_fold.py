"""The proof: recompute the demo's tables from Kafka, with other code than the lakehouse's, and compare.

    python examples/year_of_flights/independent_fold.py --bootstrap HOST:PORT --lake FOLDER [--option KEY=VALUE ...]

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
    """There is nothing to compare: no Kafka, no topic, or no table. The message says which."""


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
        """Return every table by its name; times are ISO-8601 text, as in the records."""
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


def drain_topics(settings: Mapping[str, str]) -> tuple[Fold, Digests, dict[Partition, int]]:
    """Read the whole topics; return the fold, every record's digest, and how many offsets each partition spans."""
    consumer = Consumer(
        {
            "group.id": "independent-fold",  # nobody joins it: the consumer assigns partitions, and commits nothing
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
        topics_by_name = consumer.list_topics(timeout=30).topics
        missing_topics = [topic for topic in TOPICS if topic not in topics_by_name]
        if missing_topics:
            raise CannotTell(f"Kafka has no topic {', '.join(missing_topics)}: load the demo's topics first")
        offset_spans = {
            (topic, partition_number): consumer.get_watermark_offsets(
                TopicPartition(topic, partition_number), timeout=30
            )
            for topic in TOPICS
            for partition_number in topics_by_name[topic].partitions
        }
        consumer.assign([TopicPartition(*partition, low_offset) for partition, (low_offset, _) in offset_spans.items()])
        fold, digests = _consume_topics(
            consumer, {partition: high_offset for partition, (_, high_offset) in offset_spans.items()}
        )
    finally:
        consumer.close()
    return (
        fold,
        digests,
        {partition: high_offset - low_offset for partition, (low_offset, high_offset) in offset_spans.items()},
    )


def _consume_topics(consumer: Consumer, end_offsets: dict[Partition, int]) -> tuple[Fold, Digests]:
    fold = Fold()
    digests: Digests = {partition: {} for partition in end_offsets}
    unfinished = {partition for partition, end_offset in end_offsets.items() if end_offset > 0}
    last_record_time = time.monotonic()
    while unfinished:
        for message in consumer.consume(20_000, 1.0):
            last_record_time = time.monotonic()
            error, partition = message.error(), cast("Partition", (message.topic(), message.partition()))
            offset = cast("int", message.offset())
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                unfinished.discard(partition)
            elif offset < end_offsets[partition]:
                key, value = message.key(), message.value()
                digests[partition][offset] = hash((key, value, message.timestamp()[1]))
                fold.add(partition[0], key, value)
            else:  # somebody wrote it after our start
                unfinished.discard(partition)
        if time.monotonic() - last_record_time > STALLED_SECONDS:
            unread_partitions = ", ".join(f"{topic}/{number}" for topic, number in sorted(unfinished))
            raise CannotTell(f"no record for {STALLED_SECONDS:.0f} seconds; not at the end: {unread_partitions}")
    return fold, digests


def compare_table(expected: Table, silver_rows: list[Row]) -> Row:
    """Compare a table's rows, visible columns only; return counts, up to five examples of each kind, ``equal``."""
    visible_rows = [{name: _plain_cell(cell) for name, cell in row.items() if name[0] != "_"} for row in silver_rows]
    rows_by_plane = {row["tailnum"]: row for row in visible_rows}
    missing_planes = sorted(expected.keys() - rows_by_plane.keys())
    extra_planes = sorted(rows_by_plane.keys() - expected.keys())
    different_planes = sorted(
        key for key in expected.keys() & rows_by_plane.keys() if expected[key] != rows_by_plane[key]
    )
    return {
        "equal": not missing_planes and not extra_planes and not different_planes and len(silver_rows) == len(expected),
        "rows_expected": len(expected),
        "rows_found": len(silver_rows),
        "missing": len(missing_planes),
        "extra": len(extra_planes),
        "different": len(different_planes),
        "duplicate": len(silver_rows) - len(rows_by_plane),
        "examples": {
            "missing": [expected[key] for key in missing_planes[:EXAMPLES]],
            "extra": [rows_by_plane[key] for key in extra_planes[:EXAMPLES]],
            "different": [
                {"expected": expected[key], "found": rows_by_plane[key]} for key in different_planes[:EXAMPLES]
            ],
        },
    }


def compare_bronze(kafka_digests: Digests, bronze_records: Iterator[tuple[Partition, int, int]]) -> dict[str, Row]:
    """Account for every offset of every partition. bronze_records: partition, offset, digest, in any order."""
    seen_offsets: dict[Partition, set[int]] = {partition: set() for partition in kafka_digests}
    duplicate_offsets: dict[Partition, list[int]] = {partition: [] for partition in kafka_digests}
    different_offsets: dict[Partition, list[int]] = {partition: [] for partition in kafka_digests}
    extra_offsets: dict[Partition, list[int]] = {partition: [] for partition in kafka_digests}
    for partition, offset, digest in bronze_records:
        if partition not in kafka_digests:
            raise CannotTell(f"bronze has partition {partition}, Kafka does not")
        expected_digest = kafka_digests[partition].get(offset)
        if offset in seen_offsets[partition]:
            duplicate_offsets[partition].append(offset)
        elif expected_digest is None:
            extra_offsets[partition].append(offset)
        elif expected_digest != digest:
            different_offsets[partition].append(offset)
        seen_offsets[partition].add(offset)
    report: dict[str, Row] = {}
    for partition in sorted(kafka_digests):
        missing_offsets = sorted(kafka_digests[partition].keys() - seen_offsets[partition])
        faults = {
            "missing": missing_offsets,
            "extra": extra_offsets[partition],
            "different": different_offsets[partition],
            "duplicate": duplicate_offsets[partition],
        }
        report[f"{partition[0]}/{partition[1]}"] = {
            "equal": not any(faults.values()),
            "offsets_kafka": len(kafka_digests[partition]),
            "offsets_bronze": len(seen_offsets[partition]),
            **{name: len(offsets) for name, offsets in faults.items()},
            "examples": {name: offsets[:EXAMPLES] for name, offsets in faults.items() if offsets},
        }
    return report


def read_silver(lake: str, table: str) -> list[Row]:
    """Return all rows of one silver table."""
    return [row for batch in _query_delta(f"{lake}/silver/{table}", "SELECT * FROM t") for row in batch.to_pylist()]


def read_bronze(lake: str, topic_ids: Mapping[str, str]) -> Iterator[tuple[Partition, int, int]]:
    """Yield partition, offset and digest of every bronze record of the present topics.

    Records of an earlier topic of the same name have another topic id; it ignores them.
    """
    topic_predicate = " OR ".join(
        f"(topic = '{topic}' AND topic_id = '{topic_id}')" for topic, topic_id in topic_ids.items()
    )
    columns = 'topic, partition, "offset", key, value, "timestamp"'
    for batch in _query_delta(f"{lake}/bronze/records", f"SELECT {columns} FROM t WHERE {topic_predicate}"):
        timestamps_ms = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        column_names = ("topic", "partition", "offset", "key", "value")
        cells = [*(batch.column(name).to_pylist() for name in column_names), timestamps_ms.to_pylist()]
        for topic, partition_number, offset, key, value, timestamp_ms in zip(*cells, strict=True):
            yield (topic, partition_number), offset, hash((key, value, timestamp_ms))


def _query_delta(path: str, sql: str) -> Iterator[Any]:
    try:
        for batch in QueryBuilder().register("t", DeltaTable(path)).execute(sql):
            yield pa.record_batch(batch)
    except DeltaError as error:
        raise CannotTell(f"can't read the Delta table {path}: {error}") from error


def _plain_cell(cell: Any) -> Any:
    """Return a cell in the records' form: a time as ISO-8601 text in UTC, anything else unchanged."""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return cell


def _topic_ids(settings: Mapping[str, str]) -> dict[str, str]:
    admin_client = AdminClient(dict(settings))  # keep the client until the answers are in: they end with it
    descriptions = admin_client.describe_topics(TopicCollection(list(TOPICS)), request_timeout=30)
    # Kafka's own tools print an id in base64's form for URLs, the client in the other form.
    ids = {topic: str(answer.result().topic_id) for topic, answer in descriptions.items()}
    return {topic: id_text.replace("+", "-").replace("/", "_") for topic, id_text in ids.items()}


def prove_tables(lake: str, settings: Mapping[str, str]) -> Row:
    """Return the whole comparison as one JSON-ready value; its ``equal`` is the verdict."""
    start_time = time.monotonic()
    fold, kafka_digests, offset_spans = drain_topics(settings)
    record_count = sum(map(len, kafka_digests.values()))
    drain_seconds = time.monotonic() - start_time
    print(f"{record_count:,} records drained and folded in {drain_seconds:.1f} s", file=sys.stderr)
    tables = {name: compare_table(rows, read_silver(lake, name)) for name, rows in fold.tables().items()}
    partitions = compare_bronze(kafka_digests, read_bronze(lake, _topic_ids(settings)))
    for partition, span in offset_spans.items():
        # Offsets that Kafka gives to no reader: transaction marks, aborted or compacted records. These are no faults.
        partitions[f"{partition[0]}/{partition[1]}"]["gaps_in_kafka"] = span - len(kafka_digests[partition])
    return {
        "equal": all(table_report["equal"] for table_report in (*tables.values(), *partitions.values())),
        "records": record_count,
        "seconds": {"drain": round(drain_seconds, 1), "all": round(time.monotonic() - start_time, 1)},
        "tables": tables,
        "partitions": partitions,
    }


def main() -> int:
    """Read the arguments, print the JSON, return the exit code."""
    parser = argparse.ArgumentParser(description="Recompute the demo's tables from Kafka and compare.")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the Kafka brokers")
    parser.add_argument("--lake", required=True, metavar="FOLDER", help="has bronze/ and silver/")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="for librdkafka")
    arguments = parser.parse_args()
    if not all("=" in option for option in arguments.option):
        parser.error("--option: expected KEY=VALUE, such as security.protocol=SSL")
    settings = dict(option.split("=", 1) for option in arguments.option)
    try:
        report = prove_tables(arguments.lake.rstrip("/"), {"bootstrap.servers": arguments.bootstrap, **settings})
    except (CannotTell, KafkaException) as error:
        print(f"can't tell: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2, default=str))
    return 0 if report["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
