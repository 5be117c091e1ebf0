"""The topic to which the changes between snapshots are written, each snapshot's in one transaction.

The topic itself is the progress: its records, folded by key, are the last snapshot that was taken in, and their headers
say its time. So nothing else has to be kept, and a snapshot whose writing was cut off is written again as a whole.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from confluent_kafka import Message

from lakehouse.errors import ConfigError, KafkaUnavailable
from lakehouse.kafka.drain import read_topic, topic_offsets
from lakehouse.kafka.headers import fit_record
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.rights import SNAPSHOTS_PREFIX
from lakehouse.kafka.topics import Cluster
from lakehouse.kafka.transactional import (
    TIMEOUT_SECONDS,
    TransactionFailed,
    largest_batch_bytes,
    open_transaction,
    produce_one,
    transactional_producer,
)

FOR_EVER = {"retention.ms": "-1"}
SPOOL_BYTES = 64 << 20  # changed rows wait in memory up to here, then in a temporary file
TIME_HEADER, FILE_HEADER, ROW_HEADER = "lakehouse.snapshot", "lakehouse.file", "lakehouse.row"


class SnapshotRow(NamedTuple):
    """A row of a snapshot: the bytes of its key and its value, and where it stands. row: from 1."""

    key: bytes
    value: bytes
    file: str
    row: int


class Differences(NamedTuple):
    """How many rows of a snapshot are new, changed, and gone."""

    inserted: int
    updated: int
    deleted: int

    @property
    def total(self) -> int:
        return sum(self)


class SnapshotTopic:
    """A topic that one process at a time writes snapshots to. All of it is read once, at the beginning.

    Raises NotFound, KafkaUnavailable; ConfigError for a topic that Kafka does not keep for ever.
    """

    def __init__(self, cluster: Cluster, options: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._cluster, self._options = cluster, options
        self._check_kept()
        self._largest_bytes = largest_batch_bytes(cluster, topic)
        transactional_id = f"{SNAPSHOTS_PREFIX}{topic}"
        self._producer = transactional_producer(cluster, options, topic, transactional_id, [self._largest_bytes])
        self.snapshot_ms: int | None = None  # the time of the last snapshot taken in that differed from the one before
        self._values: dict[bytes, bytes] = {}  # by key, the hash of the value that counts
        self._unchanged: set[int] = set()  # the times of later snapshots that did not differ from that one
        times: dict[bytes, int] = {}
        for message in read_topic(cluster, options, topic):
            self._take_in(message, times)

    def lacks(self, time_ms: int) -> bool:
        """Say whether a snapshot of this time is yet to be compared with the topic."""
        return (self.snapshot_ms is None or time_ms > self.snapshot_ms) and time_ms not in self._unchanged

    def _check_kept(self) -> None:
        """Raise ConfigError for a topic from which Kafka removes records by their age: a snapshot's may be old."""
        try:
            topic_config = self._cluster.config(self.topic)
        except KafkaUnavailable:
            return  # this client may not be allowed to ask
        retention_text = topic_config.get("retention.ms")
        if "delete" in (topic_config.get("cleanup.policy") or "") and retention_text not in (None, "-1"):
            raise ConfigError(
                f"topic {self.topic!r} has retention.ms={retention_text}, so that Kafka removes changes of old "
                "snapshots. Expected -1: kafka-configs --bootstrap-server ... --alter --topic "
                f"{self.topic} --add-config retention.ms=-1, or delete the topic, and a run creates it."
            )

    def _take_in(self, message: Message, times: dict[bytes, int]) -> None:
        """Fold a record. times: of the newest record of each key, which may be in another partition than older ones."""
        key, value = message.key(), message.value()
        time_bytes = dict(message.headers() or []).get(TIME_HEADER)
        if isinstance(time_bytes, bytes) and time_bytes.isdigit():
            self.snapshot_ms = max(self.snapshot_ms or 0, int(time_bytes))
        time_ms = message.timestamp()[1]
        if not isinstance(key, bytes) or time_ms < times.get(key, time_ms):
            return
        times[key] = time_ms
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = _hash(value if isinstance(value, bytes) else str(value).encode())

    def write(self, time_ms: int, rows: Iterable[SnapshotRow], *, allow_empty: bool) -> Differences:
        """Write what differs between a snapshot and the topic in one transaction; return how much that is.

        All rows are read before the first is written. allow_empty: whether a snapshot without rows deletes all rows.
        Raises what `rows` raises; ConfigError for a key that stands in two rows, and for a snapshot without rows;
        KafkaUnavailable; LakehouseError if another process writes snapshots to the topic now.
        """
        keys: set[bytes] = set()
        new_hashes: dict[bytes, bytes] = {}
        inserted_count = 0
        with SpooledTemporaryFile(SPOOL_BYTES) as spool:
            for row in rows:
                if row.key in keys:
                    key_text = repr(row.key.decode(errors="backslashreplace"))[:200]
                    raise ConfigError(
                        f"{row.file}, row {row.row}: its key {key_text} stands in an earlier row of the snapshot, too. "
                        "Expected one row a key."
                    )
                keys.add(row.key)
                value_hash = _hash(row.value)
                if self._values.get(row.key) != value_hash:
                    new_hashes[row.key] = value_hash
                    inserted_count += row.key not in self._values
                    pickle.dump(tuple(row), spool)
            if self._values and not keys and not allow_empty:
                raise ConfigError(
                    f"topic {self.topic!r}: the snapshot of {time_ms} ms has no row, and would delete all "
                    f"{len(self._values):,}. Remove its files if the export failed; if the table is empty, declare "
                    "allow_empty=True."
                )
            gone_keys = [key for key in self._values if key not in keys]
            differences = Differences(inserted_count, len(new_hashes) - inserted_count, len(gone_keys))
            if not differences.total:
                self._unchanged.add(time_ms)
                return differences
            spool.seek(0)
            changed_rows = (SnapshotRow(*pickle.load(spool)) for _ in new_hashes)
            self._write_records(_as_records(time_ms, gone_keys, changed_rows))
        for key in gone_keys:
            del self._values[key]
        self._values |= new_hashes
        self.snapshot_ms = time_ms
        self._unchanged.clear()
        return differences

    def _write_records(self, records: Iterable[ProducerRecord]) -> None:
        taken_over = f"topic {self.topic!r}: another process writes snapshots to it now; this one wrote nothing."
        try:
            with open_transaction(self._producer, taken_over) as on_delivery:
                for record in records:
                    fitted_record = fit_record(record, self.topic, self._largest_bytes)
                    produce_one(self._producer, self.topic, fitted_record, {}, on_delivery)
        except TransactionFailed as error:
            raise KafkaUnavailable(
                f"topic {self.topic!r}: a snapshot was not written: {error}. Nothing of it is in the topic; it is "
                "written as a whole at the next look."
            ) from None
        self._await_visible()

    def _await_visible(self) -> None:
        """Wait until readers see the transaction: Kafka marks it committed in each partition a little later."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while topic_offsets(self._cluster, self.topic) != topic_offsets(self._cluster, self.topic, committed=False):
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"topic {self.topic!r}: a snapshot was written, and after {TIMEOUT_SECONDS:.0f} s its readers do "
                    "not see it yet. A run that starts later sees it. Does another program write to the topic in a "
                    "transaction that it leaves open?"
                )
            time.sleep(0.02)


def _as_records(time_ms: int, gone_keys: list[bytes], changed_rows: Iterable[SnapshotRow]) -> Iterator[ProducerRecord]:
    time_header = (TIME_HEADER, str(time_ms).encode())
    for key in gone_keys:
        yield ProducerRecord(key, None, time_ms, (time_header,))
    for row in changed_rows:
        place_headers = ((FILE_HEADER, row.file.encode(errors="replace")), (ROW_HEADER, str(row.row).encode()))
        yield ProducerRecord(row.key, row.value, time_ms, (time_header, *place_headers))


def _hash(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16).digest()
