"""A lake's files on any file system, read by Spark: the source from which `lakehouse.lake.moment` finds moments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.moment.files import has_topic_records
from lakehouse.lake.moment.lake_facts import TopicEnds
from lakehouse.lake.place import TablePlace
from lakehouse.lake.store import is_remote
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import commit_log_of, read_progress, read_properties


class DeltaFolder:
    """A Delta table, as Spark has it."""

    def __init__(self, spark: SparkSession, table_path: str) -> None:
        self._spark, self._path = spark, table_path

    @cached_property
    def log(self) -> CommitLog:
        return commit_log_of(self._spark, self._path)

    def properties(self) -> Mapping[str, str]:
        return read_properties(self._spark, self._path)

    def tick(self, name: str) -> int:
        return read_progress(self._spark, TablePlace(self._path, name)).tick

    def oldest_readable(self) -> int:
        return self.log.oldest_version()  # only Delta knows which files exist, and it fails when they are read


class SparkLakeFiles:
    """The files of one lake. own_topics: those that have a physical table of their own."""

    def __init__(self, lake: OpenLake, own_topics: Collection[str] = ()) -> None:
        self._lake, self.layout, self._own_topics = lake, lake.layout, own_topics

    def open_table(self, table_path: str) -> DeltaFolder | None:
        return DeltaFolder(self._lake.spark, table_path) if self._lake.exists(table_path) else None

    def has_records(self, topics: Collection[str], after_tick: int, to_tick: int) -> bool:
        if not is_remote(self.layout.records):  # a local file: Spark takes a third of a second, and this milliseconds
            return any(
                has_topic_records(self.layout.topic_records(topic, self._own_topics), topic, after_tick, to_tick)
                for topic in topics
            )
        bronze_rows = bronze.read_ticks(self._lake, topics, after_tick, to_tick, self._own_topics)
        return not bronze_rows.limit(1).isEmpty()

    def topic_ends(self, topics: Iterable[str], to_tick: int) -> dict[str, TopicEnds]:
        bronze_rows = bronze.read_topic_records(self._lake, topics, self._own_topics)
        bronze_rows = bronze.between_ticks(bronze_rows, NO_TICK, to_tick)
        partition_ends = bronze_rows.groupBy("topic", "topic_id", "partition").agg(
            F.max("offset"), F.max("tick").alias("tick")
        )
        topic_ends: dict[str, TopicEnds] = {}
        for topic, topic_id, partition, offset, _ in map(tuple, partition_ends.orderBy("tick").collect()):
            is_same_topic = topic in topic_ends and topic_ends[topic].id == topic_id
            topic_ends[topic] = TopicEnds(
                topic_id, {**(topic_ends[topic].next if is_same_topic else {}), partition: offset + 1}
            )
        return topic_ends

    def has_interventions(self, table: str, after_tick: int, to_tick: int) -> bool:
        return interventions.has_intervention_between(self._lake, table, after_tick, to_tick)
