"""Delta's own objects, for operations for which its public interface runs needless Spark jobs.

Every read or write of a table asks its snapshot for the number of its files, and for the numbers of its writers. The
checksum beside every commit lists them, but Delta reads the whole log to answer (two or three jobs for each snapshot;
later versions of Delta ask the checksum). So this module gives a snapshot the state that its checksum lists. And a
commit without rows needs no job at all. If an object is not as expected here, Delta computes the state itself.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

# By the SHA-256 of Delta's snapshot class: the bit that says "the state is known". To find the bit takes Spark jobs,
# the first of a process, which are slow.
KNOWN_BITS = {"45b7de65a78da74785908dba3c35de97d8724757f5e6f2fe479d2a00d0ab75f7": 1 << 20}  # Delta 4.4.0
_bits: list[int] = []  # the bit of this Delta; empty until it is known, 0 if there is none
_lock = threading.Lock()


def newest_snapshot(spark: SparkSession, path: str) -> Any:
    """Return the newest snapshot of the table at `path`, Delta's own Java object, with the state of its checksum."""
    none = _scala_none(spark)
    newest = _delta_log(spark, path).update(False, none, none)
    _set_state(spark, newest)
    return newest


def transaction_numbers(snapshot: Any) -> dict[str, int] | None:
    """Return the last number of each app id in a snapshot, as its checksum lists them; None if it lists none."""
    checksum = snapshot.checksumOpt()
    optional_transactions = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not optional_transactions.isDefined():
        return None
    transactions = optional_transactions.get()
    entries = (transactions.apply(index) for index in range(transactions.size()))
    return {entry.appId(): entry.version() for entry in entries}


def number_of_app(snapshot: Any, app_id: str) -> int | None:
    """Return the last number of an app id in a snapshot; None if it has none.

    Without a checksum Spark computes the table's state for this, which takes half a second.
    """
    numbers_by_app = transaction_numbers(snapshot)
    if numbers_by_app is not None:
        return numbers_by_app.get(app_id)
    optional_number = snapshot.transactions().get(app_id)
    return int(optional_number.get()) if optional_number.isDefined() else None


def commit_number(spark: SparkSession, path: str, app_id: str, number: int, metadata_text: str) -> None:
    """Commit a number, and the commit's metadata, to the table at `path`, without rows.

    As with Delta's own numbered writes, nothing happens if the table has that number or a larger one. Raises
    delta.exceptions.ConcurrentTransactionException if another commit of the app id comes in between.
    """
    jvm: Any = spark._jvm
    delta, none = jvm.org.apache.spark.sql.delta, _scala_none(spark)
    transaction = _delta_log(spark, path).startTransaction(none, none)
    number_before = number_of_app(transaction.snapshot(), app_id)
    if number_before is not None and number_before >= number:
        return
    transaction.readTxn().addOne(app_id)  # a commit of the same app id is a conflict
    actions = jvm.java.util.ArrayList()
    actions.add(delta.actions.SetTransaction(app_id, number, jvm.scala.Option.apply(time.time_ns() // 1_000_000)))
    write_operation = getattr(delta, "DeltaOperations$Write")
    append = jvm.org.apache.spark.sql.SaveMode.Append
    operation = write_operation(append, none, none, jvm.scala.Option.apply(metadata_text), none, none, none, none, none)
    transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(), operation)


def _delta_log(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)


def _scala_none(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.scala.Option.empty()


def _set_state(spark: SparkSession, snapshot: Any) -> None:
    """Give a snapshot the state that its checksum has: all but the removed files, which only checkpoints count."""
    checksum = snapshot.checksumOpt()
    if not checksum.isDefined():
        return
    checksum = checksum.get()
    transactions, domain_metadata = checksum.setTransactions(), checksum.domainMetadata()
    if not (transactions.isDefined() and domain_metadata.isDefined()):
        return
    try:
        bitmap, state_bit = private_field(snapshot, "bitmap$0"), _state_bit(snapshot)
        if not state_bit or bitmap.get(snapshot) & state_bit:
            return
        jvm: Any = spark._jvm
        state = jvm.org.apache.spark.sql.delta.SnapshotState(
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
    except Exception:  # another version of Delta: it computes the state itself
        with _lock:
            _bits[:] = [0]


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


def private_field(java_object: Any, name: str) -> Any:
    """Return a private field of a Java object's class, made readable and writable."""
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
