"""A lake's files, read by Spark, wherever they are: the source of moments for every file system."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.moment.source import Ends
from lakehouse.lake.place import TablePlace
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import log_of, properties, read_progress


class DeltaFolder:
    """A Delta table, as Spark has it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path

    @cached_property
    def log(self) -> CommitLog:
        return log_of(self._spark, self._path)

    def properties(self) -> Mapping[str, str]:
        return properties(self._spark, self._path)

    def tick(self, name: str) -> int:
        return read_progress(self._spark, TablePlace(self._path, name)).tick

    def oldest_readable(self) -> int:
        return self.log.oldest()  # only Delta knows which files exist, and it tells when they are read


class Hadoop:
    """The files of one lake. own: topics that have a physical table of their own."""

    def __init__(self, lake: OpenLake, own: Collection[str] = ()) -> None:
        self._lake, self.layout, self._own = lake, lake.layout, own

    def opened(self, path: str) -> DeltaFolder | None:
        return DeltaFolder(self._lake.spark, path) if self._lake.exists(path) else None

    def has_records(self, topics: Collection[str], after: int, to: int) -> bool:
        rows = bronze.records(self._lake, topics, self._own)
        return not bronze.between(rows, after, to).limit(1).isEmpty()

    def ends(self, topics: Iterable[str], to: int) -> dict[str, Ends]:
        rows = bronze.between(bronze.records(self._lake, topics, self._own), NO_TICK, to)
        groups = rows.groupBy("topic", "topic_id", "partition").agg(F.max("offset"), F.max("tick").alias("tick"))
        found: dict[str, Ends] = {}
        for topic, topic_id, partition, offset, _ in map(tuple, groups.orderBy("tick").collect()):
            same = topic in found and found[topic].id == topic_id
            found[topic] = Ends(topic_id, {**(found[topic].next if same else {}), partition: offset + 1})
        return found

    def has_interventions(self, table: str, after: int, to: int) -> bool:
        return interventions.waiting(self._lake, table, after, to)
