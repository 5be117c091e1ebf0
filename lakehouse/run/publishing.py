"""The sinks of an application, kept up with its tables: every batch is published after it is committed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakehouse.config import Settings
from lakehouse.delta import bronze, published
from lakehouse.delta.layout import Layout
from lakehouse.delta.silver import own_topics
from lakehouse.delta.transaction import table_id
from lakehouse.kafka.publish import Publisher
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.app import App
from lakehouse.plan.table import Sink, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DAY_MS = 24 * 60 * 60 * 1000


class Publishing:
    """Publishers of all sinks. A context manager: entering makes the topics that do not exist."""

    def __init__(self, spark: SparkSession, settings: Settings, layout: Layout, app: App, cluster: Cluster) -> None:
        self._spark = spark.newSession() if app.sinks else spark
        self._settings, self._layout, self._app, self._cluster = settings, layout, app, cluster
        self._publishers: list[tuple[Sink, Publisher]] = []
        self._done: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Publishing:
        with ExitStack() as stack:
            if self._app.sinks:
                # Bronze's id is the lake's: a publisher's progress is told in bronze's ticks.
                bronze.create(self._spark, self._layout, own_topics(self._app))
                lake = table_id(self._spark, self._layout.records)
            for sink in self._app.sinks:
                self._make_topic(sink)
                remembered = self._layout.published(sink.topic)
                publisher = Publisher(self._cluster, self._settings.kafka.options, sink.topic, lake, remembered)
                self._publishers.append((sink, stack.enter_context(publisher)))
                self._done[sink.topic] = publisher.progress()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def publish(self, tick: int) -> dict[str, int]:
        """Publish every sink up to a tick that all tables have taken in; return the records by topic."""
        counts: dict[str, int] = {}
        for sink, publisher in self._publishers:
            after = self._done[sink.topic]
            if tick > after:
                changes = published.records(self._spark, self._layout, sink, after, tick)
                counts[sink.topic] = publisher.publish(changes, tick)
                self._done[sink.topic] = tick
        return counts

    def _make_topic(self, sink: Sink) -> None:
        """Create a sink's topic like its source's: a key keeps its partition. A table's changelog is compacted."""
        if sink.topic in self._cluster.names():
            return
        topics = (sink.of.stream if isinstance(sink.of, Table) else sink.of).topics
        partitions = sink.partitions or max(f.partitions for f in self._cluster.topics(list(topics)).values())
        if isinstance(sink.of, Table):
            # Tombstones stay for a week, so that a lake that restores from the topic sees them.
            config = {"cleanup.policy": "compact", "delete.retention.ms": str(7 * DAY_MS)}
        else:
            config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        self._cluster.create(sink.topic, partitions, config)
