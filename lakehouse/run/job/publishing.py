"""The sinks of an application, kept up with its tables: every batch is published after it is committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka import covers
from lakehouse.kafka.covers import Cover, NextOffsets
from lakehouse.kafka.drain import drain
from lakehouse.kafka.publish import Publisher
from lakehouse.kafka.topics import TO_COME, Cluster
from lakehouse.lake.properties import RESTORED
from lakehouse.plan.app import App, has_state_topic
from lakehouse.plan.schema import state_topic
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Sink, Table
from lakehouse.run.job.transactions import Transaction, cut_changes
from lakehouse.run.start.standing import (
    Mine,
    Standing,
    begins,
    declaration_of,
    name_of,
    restored_of,
    standing,
    state_in,
    unknown_records,
)
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.settings.config import Settings
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog import published
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.writer import latest_complete_tick, own_topics
from lakehouse.spark.transaction import properties, table_id

DAY_MS = 24 * 60 * 60 * 1000
# Tombstones stay for a week, so that a lake that restores from the topic sees them.
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": str(7 * DAY_MS)}


class Publishing:
    """Publishers of all sinks. A context manager: entering creates the missing topics."""

    def __init__(self, lake: OpenLake, settings: Settings, app: App, cluster: Cluster) -> None:
        self._lake = lake.own_session() if app.sinks else lake
        self._settings, self._app, self._cluster = settings, app, cluster
        self._sinks: list[_Open] = []

    def __enter__(self) -> Publishing:
        if self._app.sinks:
            # Bronze's id is the lake's: a publisher's progress is counted in bronze's ticks.
            bronze.create(self._lake, own_topics(self._app))
        for sink in self._app.sinks:
            self._make_topic(sink)
            self._sinks.append(_Open(self._lake, self._settings, self._cluster, sink))
        return self

    def __exit__(self, *_: object) -> None:
        self._sinks.clear()

    def publish(self, tick: int) -> Iterator[tuple[str, int]]:
        """Publish every sink up to a tick that all tables have taken in; yield each topic and its records."""
        yield from ((one.topic, one.publish(tick)) for one in self._sinks if one.stands_before(tick))

    def _make_topic(self, sink: Sink) -> None:
        """Create a sink's topic like its source's: a key keeps its partition. A table's changelog is compacted."""
        names = self._cluster.names()
        if sink.topic not in names:
            facts = self._cluster.topics(list(_source_topics(sink))).values()
            partitions = sink.partitions or max(fact.partitions for fact in facts)
            config = COMPACTED if isinstance(sink.of, Table) else {"cleanup.policy": "delete", "retention.ms": "-1"}
            self._create(sink.topic, partitions, config)
        if (beside := covers.name_of(sink.topic)) not in names:
            self._cluster.create(beside, 1, covers.CONFIG)
        if has_state_topic(sink) and (state := state_topic(sink.topic)) not in names:
            fact = self._cluster.topics([sink.topic])[sink.topic]
            if begins(fact.id, covers.newest(self._cluster, self._settings.kafka.options, sink.topic)):
                self._create(state, fact.partitions, COMPACTED)

    def _create(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        """A topic of event times: a booking's may lie ahead, and one that Kafka refuses would end publishing."""
        try:
            self._cluster.create(topic, partitions, config | TO_COME)
        except KafkaUnavailable:
            self._cluster.create(topic, partitions, config)  # a Kafka before 3.6 does not know the setting


class _Open:
    """One sink that is published. Raises StorageError if its topic's content can't be continued from this lake."""

    def __init__(self, lake: OpenLake, settings: Settings, cluster: Cluster, sink: Sink) -> None:
        self._lake, self._cluster, self._sink = lake, cluster, sink
        self._options, self.topic = settings.kafka.options, sink.topic
        self._who: Mine | None = None
        topic_id = cluster.topics([sink.topic])[sink.topic].id
        stands = self._stands(topic_id)  # a job that is refused must not fence the publisher
        remembered = lake.layout.published(sink.topic)
        self._publisher = Publisher(
            cluster, self._options, sink.topic, remembered, with_state=stands.has_state_topic(topic_id)
        )
        self._standing = self._stands(self._publisher.topic_id)
        self._publisher.remember(self._standing.tick)
        self._clock: tuple[int, Mapping[str, Any]] | None = None  # the table's clock at the last cover

    def stands_before(self, tick: int) -> bool:
        return tick > self._standing.tick and not self._waits(tick)

    def _waits(self, tick: int) -> bool:
        """Whether records of a joined stream that the topic covers, and that meet later ones, are not in bronze yet."""
        is_first = self._is_joined and self._standing.tick == NO_TICK
        return is_first and not bronze.has_all(self._lake, _source_topics(self._sink), self._covered(), tick)

    @property
    def _is_joined(self) -> bool:
        """Whether it is a stream behind a join of streams."""
        return isinstance(self._sink.of, Stream) and bool(meetings(self._sink.of))

    def _covered(self) -> NextOffsets:
        """What the topic of a stream covers, of the source topics that there are."""
        return covers.still_there(self._cluster, _source_topics(self._sink), self._standing.covered)

    def publish(self, tick: int) -> int:
        """Publish up to a tick, one transaction after the other; return how many records that were."""
        was, mine, count = self._standing, self._who or self._mine(), 0
        self._who = mine  # nobody else can create the table while this job keeps it
        changes = published.records(
            self._lake, self._sink, was.tick, tick, mine.origin,
            whole=was.whole, covered=self._covered() if self._is_joined else was.covered,
            with_state=was.has_state_topic(self._publisher.topic_id),
        )  # fmt: skip
        # Closed here, even if a transaction fails: what Spark keeps for them is freed while Spark still runs.
        with closing(changes), closing(cut_changes(changes, was.tick, tick, was.sent, was.at)) as cut:
            for part in cut:
                cover = self._cover(part, mine)
                count += self._publisher.publish(part.records, cover)
                self._standing = replace(was, tick=part.tick, sent=part.sent, at=part.at, covered=cover.next)
                self._clock = None if cover.clock is None else (cover.tick, cover.clock)
        return count

    def _cover(self, part: Transaction, mine: Mine) -> Cover:
        """What the topic covers after a part."""
        of, was = self._sink.of, self._standing
        covered = published.next_offsets(self._lake, of, part.tick)
        clock = published.clock_of(self._lake, of, part.tick, self._clock)
        return Cover(
            self._publisher.topic_id, name_of(of), mine.origin, part.tick, published.furthest(covered, was.covered),
            mine.table, declaration_of(of), clock, was.before,
            part.sent, part.at, was.state, published.needed_offsets(self._lake, of, part.tick),
        )  # fmt: skip

    def _stands(self, topic_id: str) -> Standing:
        cover, state = covers.newest(self._cluster, self._options, self.topic), state_topic(self.topic)
        there = self._cluster.topics([state])[state].id if self._has(state) else None
        has_records = False
        if isinstance(self._sink.of, Table) and begins(topic_id, cover):
            has_records = self._has_records(self.topic)
            if there is not None and self._has_records(state):
                raise unknown_records(state)
        mine = self._mine()
        if cover is not None and cover.origin == mine.origin and cover.tick <= mine.tick:
            exact = bronze.last_covers(self._lake.spark, self._lake.layout.records, cover.tick) is not None
            known = published.next_offsets(self._lake, self._sink.of, cover.tick)
            mine = replace(mine, next=known, exact=exact)
        stands = standing(self.topic, topic_id, cover, mine, has_records=has_records)
        return replace(stands, state=state_in(topic_id, cover, self._sink, there))

    def _has(self, state: str) -> bool:
        return has_state_topic(self._sink) and state in self._cluster.names()

    def _has_records(self, topic: str) -> bool:
        return next(drain(self._cluster, self._options, topic), None) is not None

    def _mine(self) -> Mine:
        of, tick = self._sink.of, latest_complete_tick(self._lake)
        origin = published.origin_of(self._lake, of)
        if not isinstance(of, Table) or not (opened := self._lake.open(of)).exists:
            return Mine(of, origin, tick)
        path = opened.visible.path
        restored = restored_of(properties(opened.spark, path).get(RESTORED))
        return Mine(of, origin, tick, table_id(opened.spark, path), restored)


def _source_topics(sink: Sink) -> tuple[str, ...]:
    """The topics of which a sink's stream, or table, is made."""
    return (sink.of.stream if isinstance(sink.of, Table) else sink.of).topics
