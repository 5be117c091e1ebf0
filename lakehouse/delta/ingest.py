"""The ingest query: Kafka to bronze, all topics, one commit a tick."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakehouse.delta import bronze, checkpoint, gaps
from lakehouse.delta.failure import Catching, raise_failure
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.delta.transaction import read_progress
from lakehouse.errors import DataLoss, NotFound

QUERY = "ingest"
Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)
# Answers what Kafka has now, of the topics in a list or matching a pattern.
Look = Callable[[], Mapping[str, gaps.TopicNow]]


@dataclass(frozen=True, slots=True)
class Feed:
    """What is ingested, and how. `options` are Kafka client properties; `look` asks Kafka what it has now."""

    bootstrap_servers: str
    options: Mapping[str, str]
    topics: tuple[str, ...]
    look: Look
    pattern: str | None = None
    own: tuple[str, ...] = ()
    max_records_per_tick: int = 500_000
    on_data_loss: str = "fail"


class Ingest:
    """The one writer of bronze. A context manager: entering takes the lease, opens an epoch and finds what is lost.

    `on_tick(tick, rows)` is called after each commit.
    """

    def __init__(self, spark: SparkSession, layout: Layout, feed: Feed, on_tick: Callable[[int, int], None]) -> None:
        self._spark, self._layout, self._feed, self._on_tick = spark, layout, feed, on_tick
        self._lease = Lease(layout.lease("ingest"), "bronze")
        self._run = uuid.uuid4().hex
        self._checkpoint = layout.checkpoints(QUERY)
        self._state = bronze.BronzeState()
        self._catching = Catching(self._batch)

    @property
    def tick(self) -> int:
        return self._state.tick

    def __enter__(self) -> Ingest:
        self._lease.acquire()
        try:
            bronze.create(self._spark, self._layout, self._feed.own)
            self._state = bronze.take_over(self._spark, self._layout, self._feed.own)
            self._find_gaps()
            self._finish_pending()
        except BaseException:
            self._lease.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def _find_gaps(self) -> None:
        """Compare bronze with Kafka; fail with the exact ranges, or record them and go on after them."""
        now = self._feed.look()
        found = gaps.find_gaps(self._state.topics, now, self._subscribed(now))
        if found and self._feed.on_data_loss == "fail":
            ranges = "\n".join(f"  {gap}" for gap in found)
            raise DataLoss(
                f"Kafka no longer has records that bronze expects next:\n{ranges}\n"
                "Nothing was skipped and nothing was written. "
                'To accept the loss, write it down in bronze/gaps and go on, set [run] on_data_loss = "record".'
            )
        if missing := [name for name in self._feed.topics if name not in now]:
            raise NotFound(
                f"Kafka has no topic {', '.join(missing)}. Create it, or correct the name in the application."
            )
        if found:
            gaps.record(self._spark, self._layout, found, self._state.tick)
        topics = dict(self._state.topics)
        for name, topic in now.items():
            known = topics.get(name)
            if known is None or known.id != topic.id:
                known = bronze.TopicState(topic.id)
            lost = {gap.partition: gap.to_offset for gap in found if gap.topic == name and gap.topic_id == topic.id}
            skipped = {p: to for p, to in lost.items() if to is not None and to > known.next.get(p, 0)}
            topics[name] = replace(known, next={**known.next, **skipped})
        self._state = replace(self._state, topics=topics)

    def _subscribed(self, now: Mapping[str, gaps.TopicNow]) -> list[str]:
        return sorted({*self._feed.topics, *(now if self._feed.pattern else ())})

    def _finish_pending(self) -> None:
        """Complete a tick whose own tables were written and whose main table was not, over the same offsets."""
        for topic in self._feed.own:
            path = self._layout.own_records(topic)
            if read_progress(self._spark, path, bronze.NAME).tick <= self._state.tick:
                continue
            covers = bronze.last_covers(self._spark, path)
            if covers is None:
                continue
            pinned = bronze.state_of(covers, self._state.epoch).topics
            starts = {n: dict(self._start(n, t.next)) for n, t in pinned.items()}
            ends = {name: dict(t.next) for name, t in pinned.items()}
            frame = (
                self._kafka(self._spark.read)
                .options(startingOffsets=_offsets(starts), endingOffsets=_offsets(ends))
                .load()
            )
            self._append(frame, ends)
            return

    def _start(self, name: str, partitions: Mapping[int, int]) -> Mapping[int, int]:
        known = self._state.topics.get(name)
        return {p: (known.next.get(p, -2) if known else -2) for p in partitions}

    def _kafka(self, reader: Reader) -> Reader:
        options = {f"kafka.{name}": value for name, value in self._feed.options.items()}
        options |= {
            "kafka.bootstrap.servers": self._feed.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
        if self._feed.pattern:
            listed = "|".join([*map(re.escape, self._feed.topics), self._feed.pattern])
            options["subscribePattern"] = f"^(?:{listed})$"
        else:
            options["subscribe"] = ",".join(self._feed.topics)
        return reader.format("kafka").options(**options)

    def start(self, *, available_now: bool, trigger_seconds: float = 0.0) -> StreamingQuery:
        """Start the query: until what Kafka has now is ingested, or for good. Its checkpoint is always a fresh one."""
        now = self._feed.look()
        starts = {
            name: {p: self._state.topics[name].next.get(p, earliest) for p, (earliest, _) in topic.offsets.items()}
            for name, topic in now.items()
            if name in self._state.topics
        }
        reader = self._kafka(self._spark.readStream).option("startingOffsets", _offsets(starts))
        stream = reader.option("maxOffsetsPerTrigger", str(self._feed.max_records_per_tick)).load()
        writer = stream.writeStream.queryName(QUERY).foreachBatch(self._catching)
        writer = writer.option("checkpointLocation", checkpoint.fresh(self._spark, self._checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{trigger_seconds} seconds")
        return writer.start()

    def check(self, query: StreamingQuery) -> None:
        """Raise what ended the query, if an error did: DataLoss with the exact range where that is the reason."""
        if self._catching.error is None and query.exception() is not None and self._feed.on_data_loss == "fail":
            self._find_gaps()
        raise_failure(query, self._catching)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        ends = checkpoint.batch_end(self._spark, self._checkpoint, batch_id)
        self._check_ids(ends)
        self._append(frame, ends)

    def _check_ids(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Spark goes on in silence when a topic is deleted and created anew: ask Kafka for the topics' ids."""
        now = self._feed.look()
        known = self._state.topics
        found = [gap for gap in gaps.find_gaps(known, now, ends) if gap.to_offset is None]
        if found:
            ranges = "\n".join(f"  {gap}" for gap in found)
            raise DataLoss(
                f"While running, Kafka lost records that bronze expects next:\n{ranges}\n"
                "Nothing was skipped. Start again to decide."
            )
        fresh = {name: bronze.TopicState(now[name].id) for name in ends if name not in known and name in now}
        self._state = replace(self._state, topics={**known, **fresh})

    def _append(self, frame: DataFrame, ends: Mapping[str, Mapping[int, int]]) -> None:
        self._state, rows = bronze.append_tick(frame, self._layout, self._state, ends, self._run, self._feed.own)
        self._on_tick(self._state.tick, rows)


def _offsets(starts: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps({name: {str(p): offset for p, offset in of.items()} for name, of in starts.items()})
