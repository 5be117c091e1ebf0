"""Delta's own objects, for operations that its public interface does with needless Spark jobs.

Whoever reads or writes a table asks its snapshot how many files it has, and for the numbers of its writers. The
checksum beside every commit lists them, but Delta reads the whole log to answer (two or three jobs for each snapshot;
later versions of Delta ask the checksum). So a snapshot is told what its checksum says. And a commit without rows needs
no job at all. If an object is not as expected here, Delta goes its own way.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

# Delta's class of snapshots, as SHA-256: the bit that says "the state is known". To look it up takes Spark jobs, the
# first ones of a process, which are slow.
KNOWN_BITS = {"45b7de65a78da74785908dba3c35de97d8724757f5e6f2fe479d2a00d0ab75f7": 1 << 20}  # Delta 4.4.0
_bits: list[int] = []  # that bit; empty until it is known, 0 if there is none
_lock = threading.Lock()


def snapshot(spark: SparkSession, path: str) -> Any:
    """Return the newest snapshot of the table at `path`: Delta's own Java object. It knows what its checksum says."""
    none = _none(spark)
    newest = _log(spark, path).update(False, none, none)
    _tell_state(spark, newest)
    return newest


def numbers(snapshot: Any) -> dict[str, int] | None:
    """Return the last number of each app id in a snapshot, as its checksum lists them; None if it lists none."""
    checksum = snapshot.checksumOpt()
    listed = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not listed.isDefined():
        return None
    known = listed.get()
    each = (known.apply(index) for index in range(known.size()))
    return {one.appId(): one.version() for one in each}


def number_of(snapshot: Any, app_id: str) -> int | None:
    """Return the last number of an app id in a snapshot; None if it has none.

    Without a checksum Spark puts the table's state together to tell, which takes half a second.
    """
    known = numbers(snapshot)
    if known is not None:
        return known.get(app_id)
    found = snapshot.transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def commit_number(spark: SparkSession, path: str, app_id: str, number: int, text: str) -> None:
    """Commit a number, and the commit's metadata, to the table at `path`; no rows.

    As with Delta's own numbered writes nothing is done if the table has that number, or a larger one. Raises
    delta.exceptions.ConcurrentTransactionException if another commit of the app id comes between.
    """
    jvm: Any = spark._jvm
    delta, none = jvm.org.apache.spark.sql.delta, _none(spark)
    transaction = _log(spark, path).startTransaction(none, none)
    before = number_of(transaction.snapshot(), app_id)
    if before is not None and before >= number:
        return
    transaction.readTxn().addOne(app_id)  # a commit of the same app id is a conflict
    actions = jvm.java.util.ArrayList()
    actions.add(delta.actions.SetTransaction(app_id, number, jvm.scala.Option.apply(time.time_ns() // 1_000_000)))
    write = getattr(delta, "DeltaOperations$Write")
    append = jvm.org.apache.spark.sql.SaveMode.Append
    said = write(append, none, none, jvm.scala.Option.apply(text), none, none, none, none, none)
    transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(), said)


def _log(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)


def _none(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.scala.Option.empty()


def _tell_state(spark: SparkSession, snapshot: Any) -> None:
    """Give a snapshot its state, as its checksum has it: all but the removed files, which only checkpoints count."""
    said = snapshot.checksumOpt()
    if not said.isDefined():
        return
    said = said.get()
    writers, domains = said.setTransactions(), said.domainMetadata()
    if not (writers.isDefined() and domains.isDefined()):
        return
    try:
        bitmap, bit = field_of(snapshot, "bitmap$0"), _bit(snapshot)
        if not bit or bitmap.get(snapshot) & bit:
            return
        jvm: Any = spark._jvm
        state = jvm.org.apache.spark.sql.delta.SnapshotState(
            said.tableSizeBytes(), writers.get().size(), said.numFiles(), 0, said.numDeletedRecordsOpt(),
            said.numDeletionVectorsOpt(), 1, 1, writers.get(), domains.get(), said.metadata(), said.protocol(),
            said.fileSizeHistogram(), said.deletedRecordCountsHistogramOpt(),
        )  # fmt: skip
        field_of(snapshot, "computedState").set(snapshot, state)
        bitmap.set(snapshot, bitmap.get(snapshot) | bit)
    except Exception:  # another Delta: it puts the state together itself
        with _lock:
            _bits[:] = [0]


def _bit(snapshot: Any) -> int:
    """Which bit of a snapshot says that its lazy `computedState` is known."""
    with _lock:
        if not _bits:
            if (bit := KNOWN_BITS.get(class_of(snapshot)) or looked_up(snapshot)) is None:
                return 0
            _bits.append(bit)
        return _bits[0]


def class_of(snapshot: Any) -> str:
    """Return the SHA-256 of the class file that a snapshot is of; empty if it is not to be had."""
    file = snapshot.getClass().getResourceAsStream("Snapshot.class")
    if file is None:
        return ""
    try:
        return hashlib.sha256(file.readAllBytes()).hexdigest()
    finally:
        file.close()


def looked_up(snapshot: Any) -> int | None:
    """Return the bit, by asking a snapshot for its state; None if it has that already, 0 if there is no such bit."""
    if snapshot._computedStateTriggered():
        return None
    snapshot.stateDF()  # what the state is made of has bits of its own
    bitmap = field_of(snapshot, "bitmap$0")
    before = bitmap.get(snapshot)
    snapshot.computedState()
    bit: int = bitmap.get(snapshot) & ~before
    return bit if bit.bit_count() == 1 else 0


def field_of(java: Any, name: str) -> Any:
    """Return a private field of a Java object's class, which can be read and set."""
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
