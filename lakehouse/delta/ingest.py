"""The ingest query: Kafka to bronze, all topics, one commit a tick."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakehouse.delta import bronze, checkpoint, gaps, interventions, tables
from lakehouse.delta.failure import Catching, raise_failure
from lakehouse.delta.interventions import Wanted
from lakehouse.delta.layout import Layout, misplaced
from lakehouse.delta.lease import Lease
from lakehouse.delta.transaction import read_progress
from lakehouse.errors import DataLoss, LakehouseError, NotFound, PlanError

QUERY = "ingest"
Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)
# Answers what Kafka has now, of the topics in a list or matching a pattern.
Look = Callable[[], Mapping[str, gaps.TopicNow]]
Offsets = Mapping[str, Mapping[int, int]]
ACCEPT = 'To accept the loss, write it down in bronze/gaps and go on, set [run] on_data_loss = "record".'
WHILE_RUNNING = f"It was found while running; nothing was skipped. Start again. {ACCEPT}"


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
        self._lock = threading.Lock()  # a tick is made by a batch, or by an intervention

    @property
    def tick(self) -> int:
        return self._state.tick

    def decide(self, wanted: Wanted) -> int:
        """Write an intervention down between two ticks; return its tick."""
        with self._lock:
            self._state = interventions.decide(self._spark, self._layout, self._state, wanted)
            return self._state.tick

    def __enter__(self) -> Ingest:
        self._lease.acquire()
        try:
            self._check_places()
            bronze.create(self._spark, self._layout, self._feed.own)
            state = interventions.take_over(self._spark, self._layout, self._feed.own)
            past = gaps.accepted(self._spark, self._layout)
            self._state = replace(state, topics=gaps.go_on_after(state.topics, past))
            self._find_gaps()
            self._finish_pending()
        except BaseException:
            self._lease.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def _check_places(self) -> None:
        """A topic's rows lie in one place: a table of its own is given with the topic's first tick, and stays."""
        if not tables.exists(self._spark, self._layout.records):
            return
        known = (bronze.last_covers(self._spark, self._layout.records) or {"topics": {}})["topics"]
        for topic in self._feed.topics:
            lies_apart = tables.exists(self._spark, self._layout.own_records(topic))
            if lies_apart != (topic in self._feed.own) and known.get(topic, {}).get("next"):
                raise PlanError(misplaced(topic, own=lies_apart))

    def _find_gaps(self) -> None:
        """Compare bronze with Kafka; fail with the exact ranges, or record them and go on after them."""
        now = self._feed.look()
        found = gaps.find_gaps(self._state.topics, now, self._subscribed())
        if found and self._feed.on_data_loss == "fail":
            raise _loss(found, "Nothing was skipped and nothing was written. " + ACCEPT)
        if missing := [name for name in self._feed.topics if name not in now]:
            raise NotFound(
                f"Kafka has no topic {', '.join(missing)}. Create it, or correct the name in the application."
            )
        if found:
            gaps.record(self._spark, self._layout, found, self._state.tick)
            self._state = replace(self._state, topics=gaps.go_on_after(self._state.topics, found))
        self._meet(now, now)

    def _meet(self, now: Mapping[str, gaps.TopicNow], names: Iterable[str]) -> None:
        """Take topics that are new here into the state: what Kafka had dropped before was never expected."""
        topics = dict(self._state.topics)
        for name in names:
            if name not in topics:
                dropped = {p: earliest for p, (earliest, _) in now[name].offsets.items() if earliest > 0}
                topics[name] = bronze.TopicState(now[name].id, dropped)
        self._state = replace(self._state, topics=topics)

    def _subscribed(self) -> list[str]:
        """The topics that bronze has and that this feed goes on with, whether Kafka still has them or not."""
        pattern = re.compile(self._feed.pattern) if self._feed.pattern else None
        return sorted(
            name
            for name in self._state.topics
            if name in self._feed.topics or (pattern is not None and pattern.fullmatch(name))
        )

    def _finish_pending(self) -> None:
        """Complete a tick whose own tables were written and whose main table was not, over the same offsets."""
        for topic in self._feed.own:
            path = self._layout.own_records(topic)
            if read_progress(self._spark, path, bronze.NAME).tick <= self._state.tick:
                continue
            covers = bronze.last_covers(self._spark, path)
            if covers is None:
                continue
            starts, ends = self._pinned(bronze.state_of(covers, self._state.epoch).topics)
            assigned = json.dumps({name: list(partitions) for name, partitions in ends.items()})
            reader = self._kafka(self._spark.read, {"assign": assigned})
            frame = reader.options(startingOffsets=_offsets(starts), endingOffsets=_offsets(ends)).load()
            self._append(frame, ends)
            return

    def _pinned(self, until: Mapping[str, bronze.TopicState]) -> tuple[Offsets, Offsets]:
        """Where the reading of a pinned tick begins and ends, over the partitions that it moves."""
        starts: dict[str, dict[int, int]] = {}
        ends: dict[str, dict[int, int]] = {}
        for name, topic in until.items():
            known = self._state.topics.get(name, bronze.TopicState(topic.id))
            moved = {p: end for p, end in topic.next.items() if end > known.next.get(p, 0)}
            if moved and known.id == topic.id:
                starts[name] = {p: known.next.get(p, 0) for p in moved}
                ends[name] = moved
        return starts, ends

    def _kafka(self, reader: Reader, topics: Mapping[str, str]) -> Reader:
        options = {f"kafka.{name}": value for name, value in self._feed.options.items()}
        options |= {
            "kafka.bootstrap.servers": self._feed.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
        return reader.format("kafka").options(**options, **topics)

    def _subscription(self) -> dict[str, str]:
        if self._feed.pattern:
            # Spark looks for the pattern anywhere in a name; here a pattern stands for whole names.
            listed = "|".join([*map(re.escape, self._feed.topics), self._feed.pattern])
            return {"subscribePattern": f"^(?:{listed})$"}
        return {"subscribe": ",".join(self._feed.topics)}

    def start(self, *, available_now: bool, trigger_seconds: float = 0.0) -> StreamingQuery:
        """Start the query: until what Kafka has now is ingested, or for good. Its checkpoint is always a fresh one."""
        now = self._feed.look()
        starts = {
            name: {p: self._state.topics[name].next.get(p, earliest) for p, (earliest, _) in topic.offsets.items()}
            for name, topic in now.items()
            if name in self._state.topics
        }
        reader = self._kafka(self._spark.readStream, self._subscription()).option("startingOffsets", _offsets(starts))
        stream = reader.option("maxOffsetsPerTrigger", str(self._feed.max_records_per_tick)).load()
        writer = stream.writeStream.queryName(f"{QUERY}-{uuid.uuid4().hex[:8]}").foreachBatch(self._catching)
        writer = writer.option("checkpointLocation", checkpoint.fresh(self._spark, self._checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{trigger_seconds} seconds")
        return writer.start()

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query after the batch that is under way."""
        self._catching.stop(query)

    def check(self, query: StreamingQuery) -> None:
        """Raise what ended the query, if an error did: DataLoss with the exact range where that is the reason."""
        ours = isinstance(self._catching.error, LakehouseError)
        if query.exception() is not None and not ours:
            found = gaps.find_gaps(self._state.topics, self._feed.look(), self._subscribed())
            if found:
                raise _loss(found, WHILE_RUNNING)
        raise_failure(query, self._catching)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock:
            self._take_in(frame, checkpoint.batch_end(self._spark, self._checkpoint, batch_id))

    def _take_in(self, frame: DataFrame, ends: Offsets) -> None:
        # Spark goes on in silence when a topic is deleted and created anew: Kafka is asked for the topics' ids.
        now = self._feed.look()
        if found := gaps.find_gaps(self._state.topics, now, ends):
            raise _loss(found, WHILE_RUNNING)
        self._meet(now, [name for name in ends if name in now])
        # Every query begins with a batch, also when nothing came since the last one ended.
        known = self._state.topics
        if any(end > known[name].next.get(p, 0) for name, of in ends.items() for p, end in of.items()):
            self._append(frame, ends)

    def _append(self, frame: DataFrame, ends: Offsets) -> None:
        self._state, rows = bronze.append_tick(frame, self._layout, self._state, ends, self._run, self._feed.own)
        self._on_tick(self._state.tick, rows)


def _loss(found: list[gaps.Gap], what_now: str) -> DataLoss:
    ranges = "\n".join(f"  {gap}" for gap in found)
    return DataLoss(f"Kafka no longer has records that bronze expects next:\n{ranges}\n{what_now}")


def _offsets(starts: Offsets) -> str:
    return json.dumps({name: {str(p): offset for p, offset in of.items()} for name, of in starts.items()})
