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

from lakehouse.errors import DataLoss, LakehouseError, NotFound, StorageError
from lakehouse.file_faults import written_folders
from lakehouse.kafka.ranges import RawRecord, split_into_pieces
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.control.writer_leases import ingest_lease
from lakehouse.lake.record.topic_places import refuse_misplaced
from lakehouse.phases import Phase, phase
from lakehouse.semantics.moment import Offsets
from lakehouse.spark.bronze import bronze, careful, gaps, interventions
from lakehouse.spark.bronze.feed import Feed
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.bronze.tick import append_tick, coalesce_to_few_tasks
from lakehouse.spark.jvm import checkpoint
from lakehouse.spark.jvm.failure import BatchHandler, has_spark_ended, raise_failure
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
LOOK_AGAIN_SECONDS = 1.0
WHILE_RUNNING = "It was found while running; nothing was skipped. Start again. "


class Ingest:
    """The one writer of bronze. A context manager: entering takes the lease, opens an epoch and looks for gaps.

    `on_tick(tick, rows)` is called after each commit.
    """

    def __init__(self, lake: OpenLake, feed: Feed, on_tick: Callable[[int, int], None]) -> None:
        self._lake, self._feed, self._on_tick = lake, feed, on_tick
        self._spark, self._layout = lake.spark, lake.layout
        self._lease = ingest_lease(lake.layout)
        self._run = uuid.uuid4().hex
        self._checkpoint = lake.layout.checkpoints(QUERY)
        self._state = bronze.BronzeState()
        self._accepted_gaps: list[gaps.Gap] = []
        self._batch_handler = BatchHandler(self._ingest_batch)
        self._record_bytes: float | None = None  # the average size of a record in the last tick
        self.tick_seconds = 0.0  # the seconds of the last tick
        self._batch_phase = Phase("records", "records to bronze")
        self._suspect = careful.SuspectBatch(lake.layout.careful)
        self._recreated_names: set[str] = set()  # topics that were recreated before their first record in this query
        self._may_lack_tick = False  # whether the log of interventions may have a tick that bronze lacks
        self._lock = threading.Lock()  # a batch or an intervention writes a tick, never both at once

    @property
    def tick(self) -> int:
        return self._state.tick

    def record_intervention(self, request: InterventionRequest) -> int:
        """Record an intervention between two ticks; return the intervention's tick."""
        with self._lock:
            self._may_lack_tick = True  # until both the log and bronze have it
            self._state = interventions.record_intervention(self._lake, self._state, request)
            self._may_lack_tick = False
            return self._state.tick

    def __enter__(self) -> Ingest:
        self._lease.acquire()
        try:
            with phase("opening bronze"):
                self._take_over()
        except BaseException:
            self._lease.release()
            raise
        return self

    def _take_over(self) -> None:
        refuse_misplaced(self._layout, self._feed.topics, self._feed.own_topics)
        bronze.create_tables(self._lake, self._feed.own_topics)
        state = interventions.take_over_bronze(self._lake)
        half_written = bronze.half_written_topics(self._lake, state.tick)
        pinned_topics = self._read_pinned_topics(half_written)
        # Bronze has the rows of a half written tick that are in own tables, whether Kafka still has them or not.
        written_topics = {name: pinned_topics[name] for name in half_written if name in pinned_topics}
        self._state = replace(state, topics={**state.topics, **written_topics})
        self._accepted_gaps = gaps.read_accepted_gaps(self._lake)
        self._find_gaps()
        if pinned_topics:
            self._finish_pending(pinned_topics, written_topics)

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def _find_gaps(self) -> None:
        """Compare bronze with Kafka; raise DataLoss with the exact lost ranges, or record them and go on after them."""
        kafka_topics = self._look_at_kafka()
        if any(gap.topic not in kafka_topics for gap in self._lost_ranges(kafka_topics)):
            # A broker that has just started may not know all topics yet.
            time.sleep(LOOK_AGAIN_SECONDS)
            kafka_topics = self._look_at_kafka()
        topics = gaps.accept_gaps(self._state.topics, self._accepted_gaps, kafka_topics)
        self._state = replace(self._state, topics=topics)
        self._forget_recreated(kafka_topics)
        lost_ranges = self._lost_ranges(kafka_topics)
        if any(gap.is_cut for gap in lost_ranges) or (lost_ranges and self._feed.on_data_loss == "fail"):
            raise _data_loss_error(lost_ranges, "Nothing was skipped and nothing was written. ")
        if missing_topics := [name for name in self._feed.topics if name not in kafka_topics]:
            raise NotFound(
                f"Kafka has no topic {', '.join(missing_topics)}. Create it, or correct the name in the application."
            )
        if lost_ranges:
            self._accept_losses(lost_ranges, kafka_topics)
        self._add_new_topics(kafka_topics, kafka_topics)

    def _look_at_kafka(self) -> Mapping[str, gaps.KafkaTopic]:
        """Return what Kafka has now. It is asked by name for the topics that bronze has, but not for accepted losses.

        The rights to a topic may go with the topic: then asking for it by its name is an error.
        """
        lost_ids = {gap.topic_id for gap in self._accepted_gaps if gap.to_offset is None}
        return self._feed.look_up_topics(
            [name for name in self._subscribed_topics() if self._state.topics[name].id not in lost_ids]
        )

    def _lost_ranges(self, kafka_topics: Mapping[str, gaps.KafkaTopic]) -> list[gaps.Gap]:
        """Return what Kafka has lost of the topics that this feed continues, without what was accepted."""
        lost_ranges = gaps.find_gaps(self._state.topics, kafka_topics, self._subscribed_topics())
        # A deleted topic whose loss was accepted stays known until another one has its name.
        return [gap for gap in lost_ranges if gap not in self._accepted_gaps]

    def _accept_losses(self, lost_ranges: list[gaps.Gap], kafka_topics: Mapping[str, gaps.KafkaTopic]) -> None:
        gaps.record_gaps(self._lake, lost_ranges, self._state)
        self._accepted_gaps += lost_ranges
        self._state = replace(self._state, topics=gaps.accept_gaps(self._state.topics, lost_ranges, kafka_topics))

    def _forget_recreated(self, kafka_topics: Mapping[str, gaps.KafkaTopic]) -> set[str]:
        """Forget topics that were recreated before their first record, and return their names.

        `_add_new_topics` adds their new id.
        """
        recreated_topics = gaps.gaps_of_recreated_topics(self._state.topics, kafka_topics)
        if recreated_topics:
            self._accept_losses(recreated_topics, kafka_topics)
        return {gap.topic for gap in recreated_topics}

    def _add_new_topics(self, kafka_topics: Mapping[str, gaps.KafkaTopic], names: Iterable[str]) -> None:
        """Add topics that bronze does not know to the state: offsets that Kafka had dropped by then are no gap."""
        topic_states = dict(self._state.topics)
        for name in names:
            if name not in topic_states:
                dropped_offsets = {
                    partition: first_offset
                    for partition, (first_offset, _) in kafka_topics[name].offsets.items()
                    if first_offset > 0
                }
                topic_states[name] = TopicState(kafka_topics[name].id, dropped_offsets)
        self._state = replace(self._state, topics=topic_states)

    def _subscribed_topics(self) -> list[str]:
        """Return the topics that bronze has and that this feed continues, whether Kafka still has them or not."""
        pattern = re.compile(self._feed.pattern) if self._feed.pattern else None
        return sorted(
            name
            for name in self._state.topics
            if name in self._feed.topics or (pattern is not None and pattern.fullmatch(name))
        )

    def _read_pinned_topics(self, half_written: Iterable[str]) -> Mapping[str, TopicState]:
        """Return how far a half written tick takes each topic; empty without one. half_written: see `bronze`."""
        for topic in half_written:
            coverage = bronze.last_coverage(self._spark, self._layout.own_records(topic))
            if coverage is not None:
                return coverage.topics
        return {}

    def _finish_pending(
        self, pinned_topics: Mapping[str, TopicState], written_topics: Mapping[str, TopicState]
    ) -> None:
        """Complete a tick of which only own tables were written: write the other tables, with the same offsets.

        written_topics: those whose own tables have the tick; the state counts them already. If one was recreated since,
        the rows in its table stay, and the state has the new topic.
        """
        starts, ends = self._pinned_ranges(pinned_topics)
        frame = self._feed.ranges(self._spark, starts, ends) if ends else careful.frame_of_raw_records(self._spark, [])
        self._append_tick(frame, ends, {*self._feed.own_topics, *bronze.topics_with_own_table(self._lake)})
        same_topics = [name for name, topic in written_topics.items() if self._state.topics[name].id == topic.id]
        self._state = bronze.with_order_times(self._lake, same_topics, self._state)

    def _pinned_ranges(self, pinned_topics: Mapping[str, TopicState]) -> tuple[Offsets, Offsets]:
        """Return where the rest of a half written tick begins and ends, for the partitions that it moves."""
        starts: dict[str, dict[int, int]] = {}
        ends: dict[str, dict[int, int]] = {}
        for name, pinned_topic in pinned_topics.items():
            bronze_topic = self._state.topics.get(name, TopicState(pinned_topic.id))
            moved_ends = {
                partition: end_offset
                for partition, end_offset in pinned_topic.next.items()
                if end_offset > bronze_topic.next.get(partition, 0)
            }
            if moved_ends and bronze_topic.id == pinned_topic.id:
                starts[name] = {partition: bronze_topic.next.get(partition, 0) for partition in moved_ends}
                ends[name] = moved_ends
        return starts, ends

    def start_query(self, *, available_now: bool, trigger_seconds: float = 0.0) -> StreamingQuery:
        """Start the query: it ends when all that Kafka has now is ingested, or never. Its checkpoint is always new."""
        self._recreated_names.clear()
        kafka_topics = self._look_at_kafka()
        starts = {
            name: {
                partition: self._state.topics[name].next.get(partition, first_offset)
                for partition, (first_offset, _) in topic.offsets.items()
            }
            for name, topic in kafka_topics.items()
            if name in self._state.topics
        }
        writer = (
            self._feed.stream(self._spark.readStream, starts)
            .writeStream.queryName(f"{QUERY}-{uuid.uuid4().hex[:8]}")
            .foreachBatch(self._batch_handler)
        )
        writer = writer.option("checkpointLocation", checkpoint.fresh_checkpoint(self._spark, self._checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{trigger_seconds} seconds")
        return writer.start()

    def stop_query(self, query: StreamingQuery) -> None:
        """Stop the query after the batch that is under way."""
        self._batch_handler.stop(query)

    def check_query(self, query: StreamingQuery) -> None:
        """Raise the error that ended the query, if there was one: for lost records, DataLoss with the exact ranges."""
        self._batch_handler.wait()
        is_ours = isinstance(self._batch_handler.error, LakehouseError)
        if not is_ours and not has_spark_ended() and query.exception() is not None:
            lost_ranges = self._lost_ranges(self._look_at_kafka())
            if lost_ranges:
                raise _data_loss_error(lost_ranges, WHILE_RUNNING)
        raise_failure(query, self._batch_handler, written_folders(self._layout.root))

    def _ingest_batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock, phase("records", "records to bronze", unit="records") as batch_phase:
            self._batch_phase = batch_phase
            if self._may_lack_tick:  # an intervention failed half way: its tick must not get records
                self._state = interventions.append_missing_ticks(self._lake, self._state)
                self._may_lack_tick = False
            self._take_in(frame, checkpoint.batch_end(self._spark, self._checkpoint, batch_id, frame))

    def _take_in(self, frame: DataFrame, ends: Offsets) -> None:
        # Spark continues silently when a topic is deleted and recreated: so ask Kafka for the topics' ids.
        kafka_topics = self._feed.look_up_topics(ends)
        self._recreated_names |= self._forget_recreated(kafka_topics)
        if recreated_names := self._recreated_names & ends.keys():
            ends = {**ends, **_ends_in_kafka({name: ends[name] for name in recreated_names}, kafka_topics)}
        if lost_ranges := gaps.find_gaps(self._state.topics, kafka_topics, ends):
            raise _data_loss_error(lost_ranges, WHILE_RUNNING)
        self._add_new_topics(kafka_topics, [name for name in ends if name in kafka_topics])
        # A new topic may be deleted before it is known by its id: nothing of it is there to be taken in.
        gone_names = ends.keys() - self._state.topics.keys()
        ends = {name: partition_ends for name, partition_ends in ends.items() if name not in gone_names}
        # Every query begins with a batch, even if no record came since the query before it ended.
        self._batch_phase.total = careful.count_offsets(*self._new_ranges(ends))
        if not self._batch_phase.total:
            return
        if self._suspect.is_ahead_of({name: self._state.topics[name] for name in ends}):
            self._take_in_by_record(ends)
            return
        try:
            # Spark's frame of a topic that was recreated begins where the deleted one would have gone on.
            for part_frame, part_ends in self._batch_parts(frame, ends, is_whole=not (recreated_names or gone_names)):
                starts, moved_ends = self._new_ranges(part_ends)
                part_frame = coalesce_to_few_tasks(
                    part_frame, careful.count_offsets(starts, moved_ends), sum(map(len, moved_ends.values()))
                )
                self._append_tick(
                    careful.refuse_larger_records(part_frame, self._feed.max_record_bytes),
                    part_ends,
                    self._feed.own_topics,
                )
        except Exception as error:
            if has_spark_ended():
                self._suspect.remember(ends)
                raise StorageError(careful.GONE.format(tick=self._state.tick + 1)) from error
            if not careful.is_record_failure(error) or bronze.half_written_topics(self._lake, self._state.tick):
                raise
            self._take_in_by_record(ends)

    def _batch_parts(self, frame: DataFrame, ends: Offsets, *, is_whole: bool) -> Iterator[tuple[DataFrame, Offsets]]:
        """Yield a batch in parts, each of as many bytes as a tick may have; undivided if it seems to have no more.

        is_whole: whether the frame has all new records up to the ends; if not, they are read again.
        """
        while (offset_ranges := self._new_ranges(ends))[1]:
            if self._record_bytes is None and careful.count_offsets(*offset_ranges) > careful.FIRST_RECORDS:
                self._record_bytes = careful.sample_record_bytes(self._feed, *offset_ranges)
            record_limit = careful.records_per_tick(self._feed, self._record_bytes)
            if careful.count_offsets(*offset_ranges) > record_limit:
                is_whole, offset_ranges = False, (offset_ranges[0], careful.first_offsets(*offset_ranges, record_limit))
            if is_whole:
                yield frame, ends
                return
            yield self._feed.ranges(self._spark, *offset_ranges), offset_ranges[1]

    def _take_in_by_record(self, ends: Offsets) -> None:
        """Take a batch in record by record; see `lakehouse.spark.bronze.careful`."""
        feed = self._feed
        starts, moved_ends = self._new_ranges(ends)
        piece_records = min(feed.max_records_per_tick, careful.PIECE_RECORDS)
        piece_bytes = min(feed.max_bytes_per_tick, careful.PIECE_BYTES)
        for piece in split_into_pieces(
            feed.read_ranges(starts, moved_ends), moved_ends, piece_records, piece_bytes, feed.max_record_bytes
        ):
            if piece.too_large is not None:
                self._leave_out(piece.too_large, piece.size)
            elif self._new_ranges(piece.ends)[1]:
                self._append_tick(careful.frame_of_raw_records(self._spark, piece.records), piece.ends, feed.own_topics)

    def _leave_out(self, record: RawRecord, record_bytes: int) -> None:
        reason = f"a record of {record_bytes:,} bytes, larger than max_record_bytes ({self._feed.max_record_bytes:,})"
        topic_id = self._state.topics[record.topic].id
        gap = gaps.Gap(record.topic, topic_id, record.partition, record.offset, record.offset + 1, reason)
        if self._feed.on_data_loss == "fail":
            raise DataLoss(f"A record is too large to be taken in:\n  {gap}\n{TOO_LARGE}")
        self._accept_losses([gap], {})

    def _new_ranges(self, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Return the offsets where a read up to `ends` begins and ends, for the partitions with new offsets."""
        next_offsets = {name: self._state.topics[name].next for name in ends}
        new_ends = {
            name: {
                partition: end_offset
                for partition, end_offset in partitions.items()
                if end_offset > next_offsets[name].get(partition, 0)
            }
            for name, partitions in ends.items()
        }
        moved_ends = {name: partitions for name, partitions in new_ends.items() if partitions}
        return {
            name: {partition: next_offsets[name].get(partition, 0) for partition in partitions}
            for name, partitions in moved_ends.items()
        }, moved_ends

    def _append_tick(self, frame: DataFrame, ends: Offsets, own_topics: Iterable[str]) -> None:
        start_time = time.monotonic()
        self._state, volume = append_tick(frame, self._layout, self._state, ends, self._run, own_topics)
        if volume.rows:
            self._record_bytes = volume.bytes / volume.rows
        self.tick_seconds = time.monotonic() - start_time
        self._batch_phase.done += volume.rows
        self._on_tick(self._state.tick, volume.rows)


def _ends_in_kafka(ends: Offsets, kafka_topics: Mapping[str, gaps.KafkaTopic]) -> Offsets:
    """Return the ends of these topics as far as Kafka has them: others may be those of a deleted topic."""
    return {
        name: {
            partition: min(end_offset, kafka_topics[name].offsets[partition][1])
            for partition, end_offset in partitions.items()
            if partition in kafka_topics[name].offsets
        }
        for name, partitions in ends.items()
        if name in kafka_topics
    }


def _data_loss_error(lost_ranges: list[gaps.Gap], advice: str) -> DataLoss:
    range_lines = "\n".join(f"  {gap}" for gap in lost_ranges)
    way_out = CUT if any(gap.is_cut for gap in lost_ranges) else ACCEPT
    return DataLoss(f"Kafka no longer has records that bronze expects next:\n{range_lines}\n{advice}{way_out}")
