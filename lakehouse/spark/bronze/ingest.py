"""The ingest query: Kafka to bronze, all topics, one commit a tick."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse.errors import DataLoss, LakehouseError, NotFound, PlanError, StorageError
from lakehouse.kafka.ranges import Raw, pieces
from lakehouse.lake.layout import misplaced
from lakehouse.lake.lease import Lease
from lakehouse.semantics.moment import Offsets
from lakehouse.spark import checkpoint
from lakehouse.spark.bronze import bronze, careful, gaps, interventions
from lakehouse.spark.bronze.feed import Feed
from lakehouse.spark.bronze.interventions import Wanted
from lakehouse.spark.bronze.tick import append_tick, in_few_tasks
from lakehouse.spark.failure import Catching, is_gone, raise_failure
from lakehouse.spark.open_lake import OpenLake

QUERY = "ingest"
CUT = (
    "A log that was cut can't be accepted: Kafka gives its offsets again, to other records, and bronze would have two "
    "of one place. Bronze has the records that Kafka lost. Copy what came since then to another topic, recreate the "
    'topic, copy those records back into it, and accept the loss with [run] on_data_loss = "record".'
)
TOO_LARGE = (
    "What came before it is in bronze. To take it in, raise [run] max_record_bytes, and [spark] memory with it; to "
    'leave it out, record that in bronze/gaps and continue, set [run] on_data_loss = "record".'
)
ACCEPT = 'To accept the loss, record it in bronze/gaps and continue, set [run] on_data_loss = "record".'
WHILE_RUNNING = "It was found while running; nothing was skipped. Start again. "


class Ingest:
    """The one writer of bronze. A context manager: entering takes the lease, opens an epoch and looks for gaps.

    `on_tick(tick, rows)` is called after each commit.
    """

    def __init__(self, lake: OpenLake, feed: Feed, on_tick: Callable[[int, int], None]) -> None:
        self._lake, self._feed, self._on_tick = lake, feed, on_tick
        self._spark, self._layout = lake.spark, lake.layout
        self._lease = Lease(lake.layout.lease("ingest"), "bronze")
        self._run = uuid.uuid4().hex
        self._checkpoint = lake.layout.checkpoints(QUERY)
        self._state = bronze.BronzeState()
        self._catching = Catching(self._batch)
        self._record_bytes: float | None = None  # of the last tick, on average
        self.took = 0.0  # the seconds of the last tick
        self._suspect = careful.Suspect(lake.layout.careful)
        self._lock = threading.Lock()  # a tick is made by a batch, or by an intervention

    @property
    def tick(self) -> int:
        return self._state.tick

    def decide(self, wanted: Wanted) -> int:
        """Record an intervention between two ticks; return its tick."""
        with self._lock:
            self._state = interventions.decide(self._lake, self._state, wanted)
            return self._state.tick

    def __enter__(self) -> Ingest:
        self._lease.acquire()
        try:
            self._check_places()
            bronze.create(self._lake, self._feed.own)
            state = interventions.take_over(self._lake)
            past = gaps.accepted(self._lake)
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
        """A topic's rows lie in one place: whether it has its own table is decided at its first tick, and stays so."""
        if not self._lake.exists(self._layout.records):
            return
        known = (bronze.last_covers(self._spark, self._layout.records) or {"topics": {}})["topics"]
        for topic in self._feed.topics:
            lies_apart = self._lake.exists(self._layout.own_records(topic))
            if lies_apart != (topic in self._feed.own) and known.get(topic, {}).get("next"):
                raise PlanError(misplaced(topic, own=lies_apart))

    def _find_gaps(self) -> None:
        """Compare bronze with Kafka; fail with the exact ranges that are lost, or record them and go on after them."""
        now = self._feed.look()
        self._forget(now)
        found = gaps.find_gaps(self._state.topics, now, self._subscribed())
        if any(gap.is_cut for gap in found) or (found and self._feed.on_data_loss == "fail"):
            raise _loss(found, "Nothing was skipped and nothing was written. ")
        if missing := [name for name in self._feed.topics if name not in now]:
            raise NotFound(
                f"Kafka has no topic {', '.join(missing)}. Create it, or correct the name in the application."
            )
        if found:
            self._accept(found)
        self._meet(now, now)

    def _accept(self, found: list[gaps.Gap]) -> None:
        gaps.record(self._lake, found, self._state)
        self._state = replace(self._state, topics=gaps.go_on_after(self._state.topics, found))

    def _forget(self, now: Mapping[str, gaps.TopicNow]) -> None:
        """Forget topics that were recreated before their first record: `_meet` takes them in under their new id."""
        if gone := gaps.never_begun(self._state.topics, now):
            self._accept(gone)

    def _meet(self, now: Mapping[str, gaps.TopicNow], names: Iterable[str]) -> None:
        """Add topics that are new here to the state: what Kafka had dropped before was never expected."""
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
        pending = bronze.half_written(self._lake, self._state.tick)
        for topic in pending:
            covers = bronze.last_covers(self._spark, self._layout.own_records(topic))
            if covers is None:
                continue
            starts, ends = self._pinned(bronze.state_of(covers, self._state.epoch).topics)
            # If the topic was recreated since then, there is nothing left to read; what is in the table stays.
            frame = self._feed.ranges(self._spark, starts, ends) if ends else careful.frame_of(self._spark, [])
            self._append(frame, ends, {*self._feed.own, *pending})
            return

    def _pinned(self, until: Mapping[str, bronze.TopicState]) -> tuple[Offsets, Offsets]:
        """The offsets where a pinned tick begins and ends, for the partitions that it moves."""
        starts: dict[str, dict[int, int]] = {}
        ends: dict[str, dict[int, int]] = {}
        for name, topic in until.items():
            known = self._state.topics.get(name, bronze.TopicState(topic.id))
            moved = {p: end for p, end in topic.next.items() if end > known.next.get(p, 0)}
            if moved and known.id == topic.id:
                starts[name] = {p: known.next.get(p, 0) for p in moved}
                ends[name] = moved
        return starts, ends

    def start(self, *, available_now: bool, trigger_seconds: float = 0.0) -> StreamingQuery:
        """Start the query, until what Kafka has now is ingested, or for good. Its checkpoint is always a fresh one."""
        now = self._feed.look()
        starts = {
            name: {p: self._state.topics[name].next.get(p, earliest) for p, (earliest, _) in topic.offsets.items()}
            for name, topic in now.items()
            if name in self._state.topics
        }
        writer = (
            self._feed.stream(self._spark.readStream, starts)
            .writeStream.queryName(f"{QUERY}-{uuid.uuid4().hex[:8]}")
            .foreachBatch(self._catching)
        )
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
        """Raise the error that ended the query, if one did: DataLoss with the exact range if that is the reason."""
        self._catching.wait()
        ours = isinstance(self._catching.error, LakehouseError)
        if not ours and not is_gone(self._spark) and query.exception() is not None:
            found = gaps.find_gaps(self._state.topics, self._feed.look(), self._subscribed())
            if found:
                raise _loss(found, WHILE_RUNNING)
        raise_failure(query, self._catching)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock:
            self._take_in(frame, checkpoint.batch_end(self._spark, self._checkpoint, batch_id))

    def _take_in(self, frame: DataFrame, ends: Offsets) -> None:
        # Spark goes on silently when a topic is deleted and recreated: so Kafka is asked for the topics' ids.
        now = self._feed.look()
        self._forget(now)
        if found := gaps.find_gaps(self._state.topics, now, ends):
            raise _loss(found, WHILE_RUNNING)
        self._meet(now, [name for name in ends if name in now])
        # Every query begins with a batch, even if nothing came since the last one ended.
        if not self._moved(ends)[1]:
            return
        if self._suspect.reaches({name: self._state.topics[name] for name in ends}):
            self._carefully(ends)
            return
        try:
            for part, part_ends in self._parts(frame, ends):
                starts, moved = self._moved(part_ends)
                part = in_few_tasks(part, careful.count(starts, moved), sum(map(len, moved.values())))
                self._append(careful.none_larger(part, self._feed.max_record_bytes), part_ends, self._feed.own)
        except Exception as error:
            if is_gone(self._spark):
                self._suspect.remember(ends)
                raise StorageError(careful.GONE.format(tick=self._state.tick + 1)) from error
            if not careful.is_of_a_record(error) or bronze.half_written(self._lake, self._state.tick):
                raise
            self._carefully(ends)

    def _parts(self, frame: DataFrame, ends: Offsets) -> Iterator[tuple[DataFrame, Offsets]]:
        """Yield a batch in parts of as many bytes as a tick may have; as a whole, if it does not seem to have more."""
        whole = True
        while (moved := self._moved(ends))[1]:
            if self._record_bytes is None and careful.count(*moved) > careful.FIRST_RECORDS:
                self._record_bytes = careful.sampled(self._feed, *moved)
            records = careful.records_of(self._feed, self._record_bytes)
            if careful.count(*moved) > records:
                whole, moved = False, (moved[0], careful.first_of(*moved, records))
            if whole:
                yield frame, ends
                return
            yield self._feed.ranges(self._spark, *moved), moved[1]

    def _carefully(self, ends: Offsets) -> None:
        """Take a batch in record by record; see `lakehouse.spark.bronze.careful`."""
        feed = self._feed
        starts, moved = self._moved(ends)
        records = min(feed.max_records_per_tick, careful.PIECE_RECORDS)
        size = min(feed.max_bytes_per_tick, careful.PIECE_BYTES)
        for piece in pieces(feed.read(starts, moved), moved, records, size, feed.max_record_bytes):
            if piece.too_large is not None:
                self._leave_out(piece.too_large, piece.size)
            elif self._moved(piece.ends)[1]:
                self._append(careful.frame_of(self._spark, piece.records), piece.ends, feed.own)

    def _leave_out(self, record: Raw, size: int) -> None:
        why = f"a record of {size:,} bytes, larger than max_record_bytes ({self._feed.max_record_bytes:,})"
        topic_id = self._state.topics[record.topic].id
        gap = gaps.Gap(record.topic, topic_id, record.partition, record.offset, record.offset + 1, why)
        if self._feed.on_data_loss == "fail":
            raise DataLoss(f"A record is too large to be taken in:\n  {gap}\n{TOO_LARGE}")
        self._accept([gap])

    def _moved(self, ends: Offsets) -> tuple[Offsets, Offsets]:
        """The offsets where a read up to these offsets begins and ends, for the partitions that have something new."""
        known = {name: self._state.topics[name].next for name in ends}
        new = {name: {p: end for p, end in of.items() if end > known[name].get(p, 0)} for name, of in ends.items()}
        moved = {name: of for name, of in new.items() if of}
        return {name: {p: known[name].get(p, 0) for p in of} for name, of in moved.items()}, moved

    def _append(self, frame: DataFrame, ends: Offsets, own: Iterable[str]) -> None:
        began = time.monotonic()
        self._state, written = append_tick(frame, self._layout, self._state, ends, self._run, own)
        if written.rows:
            self._record_bytes = written.bytes / written.rows
        self.took = time.monotonic() - began
        self._on_tick(self._state.tick, written.rows)


def _loss(found: list[gaps.Gap], what_now: str) -> DataLoss:
    ranges = "\n".join(f"  {gap}" for gap in found)
    way_out = CUT if any(gap.is_cut for gap in found) else ACCEPT
    return DataLoss(f"Kafka no longer has records that bronze expects next:\n{ranges}\n{what_now}{way_out}")
