"""Publishes the sinks of an application: every batch, after its commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

from lakehouse.errors import ConfigError, KafkaUnavailable, NotFound, StorageError
from lakehouse.kafka import covers
from lakehouse.kafka.covers import Cover, NextOffsets
from lakehouse.kafka.drain import read_topic, topic_offsets
from lakehouse.kafka.publish import Publisher
from lakehouse.kafka.topics import Cluster, create_for_times_to_come
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import sink_lease
from lakehouse.lake.properties import RESTORED
from lakehouse.plan.app import App, has_state_topic, input_stream
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.beside_topic import state_topic
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Sink, Table
from lakehouse.registry.opening import open_registry
from lakehouse.run.job.transactions import Transaction, cut_changes
from lakehouse.run.schemas.written_schemas import with_registered_id
from lakehouse.run.start.resume_point import (
    OwnPublication,
    ResumePoint,
    check_key_formats,
    check_partitions,
    covered_name,
    declaration_of,
    find_resume_point,
    is_new_topic,
    restored_of,
    state_topic_id,
    unknown_records_error,
)
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.settings.config import Settings
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog import published
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.transaction import read_properties, table_id

DAY_MS = 24 * 60 * 60 * 1000
# Kafka keeps tombstones for a week, so that a lake that restores from the topic sees them.
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": str(7 * DAY_MS)}


class Publishing:
    """Publishers of all sinks. A context manager: entering takes their leases, and creates the missing topics."""

    def __init__(self, lake: OpenLake, settings: Settings, app: App, cluster: Cluster) -> None:
        self._lake = lake.own_session() if app.sinks else lake
        self._settings, self._app, self._cluster = settings, app, cluster
        self._sinks: list[_OpenSink] = []
        self._leases = ExitStack()

    def __enter__(self) -> Publishing:
        with ExitStack() as stack:
            if self._app.sinks:
                # Bronze's id is the lake's: a publisher counts its progress in bronze's ticks.
                bronze.create_tables(self._lake, self._app.own_topics)
            for sink in self._app.sinks:
                stack.enter_context(sink_lease(self._lake.layout, sink.topic))
                self._make_topic(sink)
                self._sinks.append(_OpenSink(self._lake, self._settings, self._cluster, sink))
            self._leases = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._sinks.clear()
        self._leases.close()

    def publish(self, tick: int, limit: Callable[[Sink, int], int]) -> Iterator[tuple[str, int]]:
        """Publish every sink up to a tick; yield each topic and its number of records.

        limit: gives the last tick, up to this one, that all tables behind a sink have taken in.
        """
        for open_sink in self._sinks:
            if open_sink.is_behind(last_tick := limit(open_sink.sink, tick)):
                yield open_sink.topic, open_sink.publish(last_tick)

    def _make_topic(self, sink: Sink) -> None:
        """Create a sink's topic like its source's: a key keeps its partition. A table's changelog is compacted.

        Raises ConfigError, StorageError for a topic that is there and does not keep what it must.
        """
        topic_names = self._cluster.names()
        if sink.topic not in topic_names:
            topic_config = (
                COMPACTED if isinstance(sink.source, Table) else {"cleanup.policy": "delete", "retention.ms": "-1"}
            )
            # Kafka refuses a record whose time it does not take: that would end publishing.
            partition_count = sink.partitions or self._source_partitions(sink, topic_names)
            create_for_times_to_come(self._cluster, sink.topic, partition_count, topic_config)
        elif isinstance(sink.source, Table):
            self._check_kept(sink.topic)
        if (covers_topic := covers.covers_topic(sink.topic)) not in topic_names:
            self._cluster.create(covers_topic, 1, covers.CONFIG)
        else:
            self._check_compacted(covers_topic)
        if not has_state_topic(sink):
            return
        if (state_name := state_topic(sink.topic)) in topic_names:
            self._check_kept(state_name)
            return
        fact = self._cluster.topics([sink.topic])[sink.topic]
        if is_new_topic(fact.id, covers.read_newest_cover(self._cluster, self._settings.kafka.options, sink.topic)):
            create_for_times_to_come(self._cluster, state_name, fact.partitions, COMPACTED)

    def _source_partitions(self, sink: Sink, topic_names: Collection[str]) -> int:
        """Return the largest partition count of a sink's source topics; of one that is gone, what bronze knows."""
        source_names = _source_topics(sink)
        topic_facts = self._cluster.topics([name for name in source_names if name in topic_names]).values()
        counts = [fact.partitions for fact in topic_facts]
        if len(counts) < len(source_names):
            coverage = bronze.last_coverage(self._lake.spark, self._lake.layout.records) or TickCoverage()
            counts += [1 + max(offsets) for name in source_names if (offsets := coverage.next_offsets(name))]
        if not counts:
            raise NotFound(
                f"topic {sink.topic!r} does not exist, and is to get as many partitions as its source topics; found "
                f"none of {', '.join(source_names)}, neither in Kafka nor in bronze. Create them, or say the number: "
                f"to_topic({sink.topic!r}, partitions=...)."
            )
        return max(counts)

    def _check_kept(self, topic: str) -> None:
        """Raise ConfigError, StorageError for a changelog's topic from which Kafka removes, or has removed, rows."""
        self._check_compacted(topic)
        if (fault := covers.removed_fault(self._cluster, topic)) is not None:
            raise StorageError(
                f"{fault}. No lake could be restored from it. Nothing was published. Delete the topic (and the "
                "one of its state), and it is published again in full; or publish to another topic; or leave the sink "
                "out."
            )

    def _check_compacted(self, topic: str) -> None:
        try:
            policy = self._cluster.config(topic).get("cleanup.policy")
        except KafkaUnavailable:
            return  # this client may not be allowed to ask
        if policy is not None and policy != "compact":
            raise ConfigError(
                f"topic {topic!r} has cleanup.policy={policy}, so that Kafka removes records by their age: rows would "
                "be missing from a table that is restored from it, or all would be published a second time. Expected "
                f"compact. Nothing was published. Delete the topic, and a run creates it; or, if it still has all its "
                f"records: kafka-configs --bootstrap-server ... --alter --topic {topic} --add-config "
                "cleanup.policy=compact"
            )


class _OpenSink:
    """A sink under publication. Raises StorageError if this lake can't continue its topic's content."""

    def __init__(self, lake: OpenLake, settings: Settings, cluster: Cluster, sink: Sink) -> None:
        self._lake, self._cluster, self.sink = lake, cluster, sink
        self._written_sink = _with_registered_ids(lake, settings, sink)
        self._key_formats = published.written_key_formats(lake.spark, self._written_sink)
        self._options, self.topic = settings.kafka.options, sink.topic
        self._own_publication: OwnPublication | None = None
        self._declaration = declaration_of(sink.source)
        topic_id = cluster.topics([sink.topic])[sink.topic].id
        resume_point = self._find_resume_point(topic_id)  # a refused job must not fence the publisher
        keep_progress = partial(note.write, lake.layout.published(sink.topic))
        self._publisher = Publisher(
            cluster, self._options, sink.topic, keep_progress, with_state=resume_point.has_state_topic(topic_id)
        )
        self._resume_point = self._find_resume_point(self._publisher.topic_id)
        self._publisher.remember(self._resume_point.tick, self._resume_point.sent_count)
        self._clock: tuple[int, Mapping[str, Any]] | None = None  # the table's clock at the last cover

    def is_behind(self, tick: int) -> bool:
        """Say whether there are ticks to publish. Those of which a part is in the topic are published as a whole."""
        point = self._resume_point
        is_in_reach = not point.sent_count or tick >= point.sent_to
        return tick > point.tick and is_in_reach and not self._is_waiting(tick)

    def _is_waiting(self, tick: int) -> bool:
        """Say whether bronze still lacks records of a joined stream that the topic covers, and that later ones meet."""
        is_first = self._is_joined and self._resume_point.tick == NO_TICK
        return is_first and not bronze.has_all_records(
            self._lake, _source_topics(self.sink), self._covered_offsets(), tick
        )

    @property
    def _is_joined(self) -> bool:
        """True if the sink is a stream behind a join of streams."""
        return isinstance(self.sink.source, Stream) and bool(meeting_streams(self.sink.source))

    def _covered_offsets(self) -> NextOffsets:
        """Return the offsets that the topic of a stream covers, of the source topics that exist."""
        return covers.offsets_of_existing(self._cluster, _source_topics(self.sink), self._resume_point.covered)

    def publish(self, tick: int) -> int:
        """Publish up to a tick, one transaction after the other; return the number of records.

        Ticks of which a part is in the topic are finished first: what was decided later is not in their records.
        """
        under_way = [self._resume_point.sent_to] if self._resume_point.sent_count else []
        last_ticks = [last_tick for last_tick in under_way if NO_TICK < last_tick < tick]
        return sum(self._publish_ticks(last_tick) for last_tick in [*last_ticks, tick])

    def _publish_ticks(self, tick: int) -> int:
        point_before, record_count = self._resume_point, 0
        own_publication = self._own_publication or self._describe_own()
        self._own_publication = own_publication  # nobody else can create the table while this job holds its lease
        changes = published.producer_records(
            self._lake, self._written_sink, point_before.tick, tick, own_publication.origin,
            whole=point_before.whole, covered=self._covered_offsets() if self._is_joined else point_before.covered,
            with_state=point_before.has_state_topic(self._publisher.topic_id),
        )  # fmt: skip
        # Close the changes here, even if a transaction fails: Spark frees what it keeps for them while it still runs.
        with (
            closing(changes),
            closing(
                cut_changes(changes, point_before.tick, tick, point_before.sent_count, point_before.sent_position)
            ) as transactions,
        ):
            for transaction in transactions:
                part_cover = self._cover(transaction, own_publication, tick)
                record_count += self._publisher.publish(transaction.records, part_cover)
                self._resume_point = replace(
                    point_before,
                    tick=transaction.tick,
                    sent_count=transaction.sent_count,
                    sent_position=transaction.sent_position,
                    covered=part_cover.next,
                    sent_to=part_cover.to,
                )
                self._clock = None if part_cover.clock is None else (part_cover.tick, part_cover.clock)
        return record_count

    def _cover(self, transaction: Transaction, own_publication: OwnPublication, last_tick: int) -> Cover:
        """Return the topic's cover after a transaction of the ticks up to the last one."""
        node, point_before = self.sink.source, self._resume_point
        covered_offsets = published.next_offsets(self._lake, node, transaction.tick)
        clock = published.clock_of(self._lake, node, transaction.tick, self._clock)
        return Cover(
            self._publisher.topic_id,
            covered_name(node),
            own_publication.origin,
            transaction.tick,
            published.furthest_offsets(covered_offsets, point_before.covered),
            own_publication.table,
            self._declaration,
            clock,
            point_before.before,
            transaction.sent_count,
            transaction.sent_position,
            point_before.state,
            published.needed_offsets(self._lake, node, transaction.tick),
            last_tick if transaction.sent_count else NO_TICK,
            self._publisher.partitions(self.topic),
            self._publisher.partitions(state_topic(self.topic)),
            published.tick_nonce(self._lake, transaction.tick),
            self._key_formats,
        )

    def _find_resume_point(self, topic_id: str) -> ResumePoint:
        newest_cover = covers.read_newest_cover(self._cluster, self._options, self.topic)
        state_name = state_topic(self.topic)
        state_id = self._cluster.topics([state_name])[state_name].id if self._has_state(state_name) else None
        has_records = False
        if is_new_topic(topic_id, newest_cover):
            has_records = self._has_records(self.topic)
            if state_id is not None and self._has_records(state_name):
                raise unknown_records_error(state_name, self.sink.source)
        own_publication = self._describe_own()
        if (
            newest_cover is not None
            and newest_cover.origin == own_publication.origin
            and newest_cover.tick <= own_publication.tick
        ):
            is_exact = bronze.last_coverage(self._lake.spark, self._lake.layout.records, newest_cover.tick) is not None
            lake_offsets = published.next_offsets(self._lake, self.sink.source, newest_cover.tick)
            tick_commit = published.tick_nonce(self._lake, newest_cover.tick)
            own_publication = replace(own_publication, next=lake_offsets, exact=is_exact, commit=tick_commit)
        resume_point = find_resume_point(self.topic, topic_id, newest_cover, own_publication, has_records=has_records)
        check_partitions(self._cluster, self.sink, topic_id, newest_cover)
        check_key_formats(self.sink, topic_id, newest_cover, self._key_formats)
        return replace(resume_point, state=state_topic_id(topic_id, newest_cover, self.sink, state_id))

    def _has_state(self, state: str) -> bool:
        return has_state_topic(self.sink) and state in self._cluster.names()

    def _has_records(self, topic: str) -> bool:
        """Say whether a topic has records, or had some that Kafka has removed since."""
        if any(first_offset > 0 for first_offset, _ in topic_offsets(self._cluster, topic).values()):
            return True
        return next(read_topic(self._cluster, self._options, topic), None) is not None

    def _describe_own(self) -> OwnPublication:
        node, tick = self.sink.source, latest_complete_tick(self._lake)
        origin = published.origin_of(self._lake, node)
        if not isinstance(node, Table) or not (open_table := self._lake.open(node)).table_exists():
            return OwnPublication(node, origin, tick)
        path = open_table.visible.path
        restored = restored_of(read_properties(open_table.spark, path).get(RESTORED))
        return OwnPublication(node, origin, tick, table_id(open_table.spark, path), restored)


def _with_registered_ids(lake: OpenLake, settings: Settings, sink: Sink) -> Sink:
    """Return a sink whose formats have the ids of their schemas; the sink itself if it needs none.

    Raises as `with_registered_id` does.
    """
    if not any(parse_format(format).traits.is_registered for format in (sink.format, sink.key_format)):
        return sink
    key_columns, value_columns = published.published_columns(lake.spark, sink.source)
    registry = open_registry(settings.registry)
    try:

        def registered(part_name: str, format: str, columns: tuple[Column, ...]) -> str:
            if not parse_format(format).traits.is_registered:
                return format
            return with_registered_id(registry, settings.registry, sink.topic, part_name, format, columns)

        key_format = published.key_format(key_columns, sink.format, sink.key_format)
        return replace(
            sink,
            format=registered("value", sink.format, value_columns),
            key_format=registered("key", key_format, key_columns) if key_format == sink.key_format else sink.key_format,
        )
    finally:
        registry.close()


def _source_topics(sink: Sink) -> tuple[str, ...]:
    """Return the topics that a sink's stream, or table, is made from."""
    return input_stream(sink).topics
