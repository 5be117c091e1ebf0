"""Delta's own objects, for operations that its public interface does with needless Spark jobs.

A numbered write asks the table's snapshot for the numbers that it holds. The checksum beside every commit lists them,
but Delta reads the whole log to answer, at each write (half a second, three jobs). So Delta is given the checksum's
numbers. And a commit without rows needs no job at all. If an object is not as expected here, Delta goes its own way.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from pyspark.sql import SparkSession

LONG = 2**31  # py4j passes smaller numbers as another type
_bits: list[int] = []  # the snapshot's bit for "the numbers are known"; empty until it is looked up, 0 if there is none
_lock = threading.Lock()


def snapshot(spark: SparkSession, path: str) -> Any:
    """Return the newest snapshot of the table at `path`: Delta's own Java object."""
    none = _none(spark)
    return _log(spark, path).update(False, none, none)


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


def tell_numbers(spark: SparkSession, path: str) -> None:
    """Give the newest snapshot of the table at `path` its numbers, so that a write does not look for them."""
    newest = snapshot(spark, path)
    known = numbers(newest)
    if known is None or any(number < LONG for number in known.values()):
        return
    try:
        bit = _bit(newest)
        if bit:
            _field(newest, "transactions").set(newest, _scala_map(spark, known))
            bitmap = _field(newest, "bitmap$0")
            bitmap.set(newest, bitmap.get(newest) | bit)
    except Exception:  # another Delta: it looks for them itself
        with _lock:
            _bits[:] = [0]


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


def _scala_map(spark: SparkSession, values: dict[str, int]) -> Any:
    jvm: Any = spark._jvm
    java = jvm.java.util.HashMap()
    for name, value in values.items():
        java.put(name, value)
    return getattr(jvm.scala.collection.immutable.Map, "from")(jvm.scala.jdk.javaapi.CollectionConverters.asScala(java))


def _bit(snapshot: Any) -> int:
    """Which bit of a snapshot says that its lazy `transactions` are known: looked up once, by asking for them."""
    with _lock:
        if not _bits:
            bitmap = _field(snapshot, "bitmap$0")
            snapshot.computedState()
            before = bitmap.get(snapshot)
            snapshot.transactions()
            bit = bitmap.get(snapshot) & ~before
            _bits.append(bit if bit.bit_count() == 1 else 0)
        return _bits[0]


def _field(snapshot: Any, name: str) -> Any:
    field = snapshot.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
