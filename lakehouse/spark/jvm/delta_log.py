"""Delta's log of a table, as a `LogSnapshot`; and a commit without rows.

Delta's public interface runs needless Spark jobs for both. Every read or write of a table asks its snapshot for the
number of its files, and for the numbers of its writers. The checksum beside every commit lists them, but Delta reads
the whole log to answer (two or three jobs for each snapshot; later versions of Delta ask the checksum). So this module
gives a snapshot the state that its checksum lists. And a commit without rows needs no job at all.

The plain way (`lakehouse.spark.jvm.plain_log`) reads the log without Delta's own objects.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark.jvm import plain_log
from lakehouse.spark.jvm.capability import Capability, choose_way, is_available, report_missing
from lakehouse.spark.jvm.java import activate_session, active_jvm, java_session, private_field, scala_list, scala_none

# By the SHA-256 of Delta's snapshot class: the bit that says "the state is known". To find the bit takes Spark jobs,
# the first of a process, which are slow.
KNOWN_BITS = {"45b7de65a78da74785908dba3c35de97d8724757f5e6f2fe479d2a00d0ab75f7": 1 << 20}  # Delta 4.4.0
_bits: list[int] = []  # the bit of this Delta; empty until it is known, 0 if there is none
_lock = threading.Lock()


class LogSnapshot(Protocol):
    """One version of a Delta table, as its log describes it."""

    @property
    def version(self) -> int: ...

    @property
    def table_id(self) -> str:
        """The id that Delta gave the table when it was created: no other table ever has it."""

    @property
    def created_ms(self) -> int:
        """When the table was created, in milliseconds since 1970."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def file_count(self) -> int | None:
        """The number of its files; None if only a read of the log tells it."""

    @property
    def total_bytes(self) -> int | None:
        """The size of its files; None if only a read of the log tells it."""

    def number_of_app(self, app_id: str) -> int | None:
        """Return the last number of an app id; None if it has none."""

    def files(self) -> DataFrame:
        """Return its files: partition (a map of texts), size in bytes, and number of rows (0 if unknown)."""


@dataclass(frozen=True)
class JavaSnapshot:
    """A snapshot by Delta's own Java object, asked only for what is read of it."""

    spark: SparkSession
    java: Any

    @cached_property
    def version(self) -> int:
        return int(self.java.version())

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = json.loads(self.java.metadata().json())["metaData"]
        return metadata

    @property
    def table_id(self) -> str:
        return str(self._metadata["id"])

    @property
    def created_ms(self) -> int:
        return int(self._metadata["createdTime"])

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self._metadata.get("configuration") or {})

    @cached_property
    def _checksum(self) -> Any:
        checksum = self.java.checksumOpt()
        return checksum.get() if checksum.isDefined() else None

    @property
    def file_count(self) -> int | None:
        return None if self._checksum is None else int(self._checksum.numFiles())

    @property
    def total_bytes(self) -> int | None:
        return None if self._checksum is None else int(self._checksum.tableSizeBytes())

    def transaction_numbers(self) -> dict[str, int] | None:
        """Return the last number of each app id, as the checksum lists them; None if it lists none."""
        if self._checksum is None or not self._checksum.setTransactions().isDefined():
            return None
        transactions = self._checksum.setTransactions().get()
        entries = (transactions.apply(index) for index in range(transactions.size()))
        return {entry.appId(): entry.version() for entry in entries}

    def number_of_app(self, app_id: str) -> int | None:
        """Return the last number of an app id; without a checksum Spark computes the state, for half a second."""
        if (numbers_by_app := self.transaction_numbers()) is not None:
            return numbers_by_app.get(app_id)
        optional_number = self.java.transactions().get(app_id)
        return int(optional_number.get()) if optional_number.isDefined() else None

    def has_number(self, app_id: str, number: int) -> bool:
        """Say whether an app id has that number or a larger one: Delta skips a write of it."""
        number_before = self.number_of_app(app_id)
        return number_before is not None and number_before >= number

    def files(self) -> DataFrame:
        return plain_log.select_file_columns(DataFrame(self.java.allFiles().toDF(), self.spark))


def newest_snapshot(spark: SparkSession, path: str) -> LogSnapshot:
    """Return the newest snapshot of the table at `path`."""

    def ask_delta() -> LogSnapshot:
        none = scala_none()
        newest = JavaSnapshot(spark, delta_log_of(spark, path).update(False, none, none))
        _set_state(newest)
        return newest

    return choose_way(Capability.DELTA_LOG, ask_delta, lambda: plain_log.open_snapshot(spark, path))


def commit_number(spark: SparkSession, path: str, app_id: str, number: int, metadata_text: str) -> None:
    """Commit a number, and the commit's metadata, to the table at `path`, without rows.

    As with Delta's own numbered writes, nothing happens if the table has that number or a larger one. Raises
    delta.exceptions.ConcurrentTransactionException if another commit of the app id comes in between.
    """
    choose_way(
        Capability.DELTA_COMMIT,
        lambda: _commit_by_transaction(spark, path, app_id, number, metadata_text),
        lambda: plain_log.append_nothing(spark, path, app_id, number, metadata_text),
    )


def _commit_by_transaction(spark: SparkSession, path: str, app_id: str, number: int, metadata_text: str) -> None:
    jvm, none = active_jvm(), scala_none()
    transaction = delta_log_of(spark, path).startTransaction(none, none)
    if JavaSnapshot(spark, transaction.snapshot()).has_number(app_id, number):
        return
    write_operation = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
    append = jvm.org.apache.spark.sql.SaveMode.Append
    operation = write_operation(append, none, none, jvm.scala.Option.apply(metadata_text), none, none, none, none, none)
    transaction.commit(scala_list([take_number(transaction, app_id, number)]), operation)


def take_number(transaction: Any, app_id: str, number: int) -> Any:
    """Return the action that gives a transaction its number; a commit of the same app id is then a conflict."""
    transaction.readTxn().addOne(app_id)
    jvm = active_jvm()
    now_ms = jvm.scala.Option.apply(time.time_ns() // 1_000_000)
    return jvm.org.apache.spark.sql.delta.actions.SetTransaction(app_id, number, now_ms)


def delta_log_of(spark: SparkSession, path: str) -> Any:
    """Return Delta's own Java object of a table's log."""
    return active_jvm().org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), path)


def read_files(spark: SparkSession, path: str, add_lines: Iterable[str]) -> DataFrame | None:
    """Return the rows of some files of the table at `path`, without a Spark job to find them.

    add_lines: the lines of the table's log that add these files. None if this build of Delta can't.
    """

    def ask_delta() -> DataFrame:
        none, log = scala_none(), delta_log_of(spark, path)
        snapshot, action = log.update(False, none, none), active_jvm().org.apache.spark.sql.delta.actions.Action
        return frame_of_files(spark, log, snapshot, [action.fromJson(line) for line in add_lines])

    return choose_way(Capability.DELTA_FILES, ask_delta, lambda: None)


def frame_of_files(spark: SparkSession, log: Any, snapshot: Any, files: Sequence[Any]) -> DataFrame:
    """Return the rows of a snapshot's files; all but the session are Delta's own Java objects."""
    activate_session(spark)
    return DataFrame(log.createDataFrame(snapshot, scala_list(files), False, scala_none()), spark)


def _set_state(newest: JavaSnapshot) -> None:
    """Give a snapshot the state that its checksum has: all but the removed files, which only checkpoints count."""
    checksum, snapshot = newest._checksum, newest.java
    if checksum is None or not is_available(Capability.DELTA_STATE):
        return
    transactions, domain_metadata = checksum.setTransactions(), checksum.domainMetadata()
    if not (transactions.isDefined() and domain_metadata.isDefined()):
        return
    try:
        bitmap, state_bit = private_field(snapshot, "bitmap$0"), _state_bit(snapshot)
        if not state_bit or bitmap.get(snapshot) & state_bit:
            return
        state = active_jvm().org.apache.spark.sql.delta.SnapshotState(
            checksum.tableSizeBytes(),
            transactions.get().size(),
            checksum.numFiles(),
            0,
            checksum.numDeletedRecordsOpt(),
            checksum.numDeletionVectorsOpt(),
            1,
            1,
            transactions.get(),
            domain_metadata.get(),
            checksum.metadata(),
            checksum.protocol(),
            checksum.fileSizeHistogram(),
            checksum.deletedRecordCountsHistogramOpt(),
        )
        private_field(snapshot, "computedState").set(snapshot, state)
        bitmap.set(snapshot, bitmap.get(snapshot) | state_bit)
    except Exception as error:  # another version of Delta: it computes the state itself
        report_missing(Capability.DELTA_STATE, error)


def _state_bit(snapshot: Any) -> int:
    """Return the bit of a snapshot that says that its lazy `computedState` is known; 0 if it is not found."""
    with _lock:
        if not _bits:
            if (bit := KNOWN_BITS.get(class_hash(snapshot)) or find_state_bit(snapshot)) is None:
                return 0
            _bits.append(bit)
        return _bits[0]


def class_hash(snapshot: Any) -> str:
    """Return the SHA-256 of the class file of a snapshot; empty if not available."""
    file = snapshot.getClass().getResourceAsStream("Snapshot.class")
    if file is None:
        return ""
    try:
        return hashlib.sha256(file.readAllBytes()).hexdigest()
    finally:
        file.close()


def find_state_bit(snapshot: Any) -> int | None:
    """Find the bit by asking a snapshot for its state; None if it has its state already, 0 if there is no such bit."""
    if snapshot._computedStateTriggered():
        return None
    snapshot.stateDF()  # the parts of the state have bits of their own
    bitmap = private_field(snapshot, "bitmap$0")
    bits_before = bitmap.get(snapshot)
    snapshot.computedState()
    state_bit: int = bitmap.get(snapshot) & ~bits_before
    return state_bit if state_bit.bit_count() == 1 else 0
