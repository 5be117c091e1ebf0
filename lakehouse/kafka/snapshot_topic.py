"""The topic to which the changes between snapshots are written, each snapshot's in one transaction.

The topic itself is the progress: its records, folded by key, are the last snapshot that was taken in, and their headers
say its time. So nothing else has to be kept, and a snapshot whose writing was cut off is written again as a whole.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from lakehouse.errors import ConfigError, KafkaUnavailable, LakehouseError
from lakehouse.kafka.drain import read_topic, topic_offsets
from lakehouse.kafka.headers import LIMIT, record_room, record_size
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.rights import SNAPSHOTS_PREFIX, Right, describe_missing_right
from lakehouse.kafka.topics import FOR_EVER, TO_COME, Cluster, create_for_times_to_come
from lakehouse.kafka.transactional import (
    TIMEOUT_SECONDS,
    TransactionFailed,
    largest_batch_bytes,
    open_transaction,
    produce_one,
    transactional_producer,
)
from lakehouse.semantics.epoch_time import moment_text

SPOOL_BYTES = 64 << 20  # changed rows wait in memory up to here, then in a temporary file
TIME_HEADER, FILE_HEADER, ROW_HEADER = "lakehouse.snapshot", "lakehouse.file", "lakehouse.row"


# Errors that a topic's settings, or the records, are to blame for: waiting does not help.
LASTING = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)
CREATED_SECONDS = 5.0  # until every broker knows of a topic that another process has created


class SnapshotRow(NamedTuple):
    """A row of a snapshot: the bytes of its key and its value, and where it stands. row: from 1."""

    key: bytes
    value: bytes
    file: str
    row: int


class Differences(NamedTuple):
    """The numbers of rows of a snapshot that are new, changed, and gone."""

    inserted: int
    updated: int
    deleted: int

    @property
    def total(self) -> int:
        return sum(self)


def create_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    """Create a topic for snapshots, kept for ever, unless another process does now. Raises KafkaUnavailable.

    It takes times ahead: an export may be named after the day that it is for.
    """
    try:
        create_for_times_to_come(cluster, topic, partitions, FOR_EVER)
    except KafkaUnavailable:
        raise
    except LakehouseError:
        if not _wait_for_topic(cluster, topic):
            raise


def _wait_for_topic(cluster: Cluster, topic: str) -> bool:
    """Say whether a topic is there, at the latest in some seconds."""
    deadline = time.monotonic() + CREATED_SECONDS
    while topic not in cluster.names():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class SnapshotTopic:
    """A topic that one process at a time writes snapshots to. All of it is read once, at the beginning.

    Raises NotFound, KafkaUnavailable; ConfigError for a topic that Kafka does not keep for ever, as it was written.
    """

    def __init__(self, cluster: Cluster, options: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._cluster, self._options = cluster, options
        self.id = cluster.topics([topic])[topic].id
        self._check_kept()
        self._largest_bytes = largest_batch_bytes(cluster, topic)
        self._transactional_id = f"{SNAPSHOTS_PREFIX}{topic}"
        self._producer = transactional_producer(cluster, options, topic, self._transactional_id, [self._largest_bytes])
        self.snapshot_ms: int | None = None  # the time of the last snapshot taken in that differed from the one before
        self._values: dict[bytes, bytes] = {}  # by key, the hash of the value that counts
        self._unchanged: set[int] = set()  # the times of later snapshots that did not differ from that one
        self._known_keys: set[bytes] = set()  # see `expect`
        self._known_ms = 0
        times: dict[bytes, int] = {}
        for message in read_topic(cluster, options, topic):
            self._take_in(message, times)

    def expect_known_rows(self, known_keys: set[bytes], newest_ms: int) -> None:
        """Let the first snapshot after a time delete the rows that it does not have, though the topic lacks them, too.

        For rows that readers have from an earlier topic of this name. newest_ms: the time of their newest record.
        """
        self._known_keys, self._known_ms = known_keys, newest_ms

    def lacks_snapshot(self, time_ms: int) -> bool:
        """Say whether a snapshot of this time is yet to be compared with the topic."""
        return (self.snapshot_ms is None or time_ms > self.snapshot_ms) and time_ms not in self._unchanged

    def _check_kept(self) -> None:
        """Raise ConfigError for a topic from which Kafka removes records, or whose records get times of its own.

        The records of an old snapshot are old; and without its tombstones, an older snapshot would be taken in again.
        """
        try:
            topic_config = self._cluster.config(self.topic)
        except KafkaUnavailable:
            return  # this client may not be allowed to ask
        policies = (topic_config.get("cleanup.policy") or "").split(",")
        is_wrong = {
            "cleanup.policy": "compact" in policies,
            "retention.ms": "delete" in policies and (topic_config.get("retention.ms") or "-1") != "-1",
            "retention.bytes": "delete" in policies and (topic_config.get("retention.bytes") or "-1") != "-1",
            "message.timestamp.type": (topic_config.get("message.timestamp.type") or "CreateTime") != "CreateTime",
        }
        wrong_settings = [name for name, wrong in is_wrong.items() if wrong]
        if wrong_settings:
            found_text = ", ".join(f"{name}={topic_config[name]}" for name in wrong_settings)
            expected_text = ",".join(f"{name}={FOR_EVER[name]}" for name in wrong_settings)
            raise ConfigError(
                f"topic {self.topic!r} has {found_text}, so that Kafka removes changes of old snapshots, or gives them "
                f"other times. Expected {expected_text}: kafka-configs --bootstrap-server ... --alter --topic "
                f"{self.topic} --add-config {expected_text}, or delete the topic, and a run creates it."
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
            self._values[key] = _hash_value(value if isinstance(value, bytes) else str(value).encode())

    def write(self, time_ms: int, rows: Iterable[SnapshotRow], *, allow_empty: bool) -> Differences:
        """Write what differs between a snapshot and the topic in one transaction; return how much that is.

        All rows are read before the first is written. allow_empty: whether a snapshot without rows deletes all rows.
        Raises what `rows` raises; ConfigError for a key that stands in two rows, for a row or a time that the topic
        does not take, and for a snapshot without rows; KafkaUnavailable; LakehouseError if another process writes
        snapshots to the topic now.
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
                value_hash = _hash_value(row.value)
                if self._values.get(row.key) != value_hash:
                    self._check_size(_as_record(time_ms, row), row)
                    new_hashes[row.key] = value_hash
                    inserted_count += row.key not in self._values
                    pickle.dump(tuple(row), spool)
            gone_keys = [key for key in self._values if key not in keys]
            if time_ms > self._known_ms:
                gone_keys += [key for key in self._known_keys if key not in keys and key not in self._values]
            if gone_keys and not keys and not allow_empty:
                raise ConfigError(
                    f"topic {self.topic!r}: the snapshot of {moment_text(time_ms)} has no row, and would delete all "
                    f"{len(gone_keys):,}. Remove its files if the export failed; if the table is empty, declare "
                    "allow_empty=True."
                )
            differences = Differences(inserted_count, len(new_hashes) - inserted_count, len(gone_keys))
            if not differences.total:
                self._unchanged.add(time_ms)
                self._forget_known(time_ms)
                return differences
            spool.seek(0)
            changed_rows = (SnapshotRow(*pickle.load(spool)) for _ in new_hashes)
            tombstones = (ProducerRecord(key, None, time_ms, (_time_header(time_ms),)) for key in gone_keys)
            self._write_records(time_ms, chain(tombstones, (_as_record(time_ms, row) for row in changed_rows)))
        for key in gone_keys:
            self._values.pop(key, None)
        self._values |= new_hashes
        self._forget_known(time_ms)
        self.snapshot_ms = time_ms
        self._unchanged.clear()
        return differences

    def _forget_known(self, time_ms: int) -> None:
        """Once a snapshot is later than the known rows, the topic says all of them."""
        if time_ms > self._known_ms:
            self._known_keys = set()

    def _check_size(self, record: ProducerRecord, row: SnapshotRow) -> None:
        """Raise ConfigError for a record that is too large for the topic."""
        record_bytes = record_size(record)
        if record_bytes > record_room(self._largest_bytes):
            needed_bytes = record_bytes + record_bytes // 50 + 2048
            raise ConfigError(
                f"{row.file}, row {row.row}: it makes a record of {record_bytes:,} bytes; expected one that topic "
                f"{self.topic!r} takes, whose {LIMIT} is {self._largest_bytes:,}. Nothing of this snapshot is "
                "taken in, nor of later ones. Shorten the row; or: kafka-configs --bootstrap-server ... --alter "
                f"--topic {self.topic} --add-config {LIMIT}={needed_bytes}"
            )

    def _write_records(self, time_ms: int, records: Iterable[ProducerRecord]) -> None:
        taken_over = f"topic {self.topic!r}: another process writes snapshots to it now; this one wrote nothing."
        try:
            with open_transaction(self._producer, taken_over) as on_delivery:
                for record in records:
                    produce_one(self._producer, self.topic, record, {}, on_delivery)
        except TransactionFailed as failure:
            raise self._explain_failure(failure.error, time_ms) from None
        self._await_visible()

    def _explain_failure(self, error: KafkaError, time_ms: int) -> LakehouseError:
        """Return a ConfigError for a snapshot that the topic does not take; KafkaUnavailable for what may pass."""
        outcome = f"topic {self.topic!r}: nothing of the snapshot of {moment_text(time_ms)} was written"
        if error.code() == KafkaError.INVALID_TIMESTAMP:
            ((ahead_setting, longest_ms),) = TO_COME.items()
            setting = ahead_setting if time_ms > time.time() * 1000 else "message.timestamp.before.max.ms"
            return ConfigError(
                f"{outcome}: {error.str()}. Expected a time that the topic takes; by default, Kafka 4 takes none that "
                "is more than an hour ahead of its clock. Correct the time; or: kafka-configs --bootstrap-server ... "
                f"--alter --topic {self.topic} --add-config {setting}={longest_ms}"
            )
        if error.code() in LASTING:
            return ConfigError(
                f"{outcome}: {error.str()}. Expected records that the topic takes: look at its settings, such as "
                f"{LIMIT}."
            )
        right = Right("Write", "topic", self.topic)
        transactional_right = Right("Write", "transactional-id", self._transactional_id)
        missing_right = describe_missing_right(error, self._options, right, transactional_right)
        return KafkaUnavailable(f"{outcome}: {missing_right or f'{error.str()}. It is written at the next look.'}")

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


def _as_record(time_ms: int, row: SnapshotRow) -> ProducerRecord:
    place_headers = ((FILE_HEADER, row.file.encode(errors="replace")), (ROW_HEADER, str(row.row).encode()))
    return ProducerRecord(row.key, row.value, time_ms, (_time_header(time_ms), *place_headers))


def _time_header(time_ms: int) -> tuple[str, bytes]:
    return TIME_HEADER, str(time_ms).encode()


def _hash_value(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16).digest()
