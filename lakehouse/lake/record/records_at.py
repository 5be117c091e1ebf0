"""The records of a topic at a moment, as a filter over bronze, without Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake import reader
from lakehouse.lake.commit_log import commit_time_ms
from lakehouse.lake.commit_metadata import BronzeTick
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.moment.files import LakeFiles
from lakehouse.lake.place import INGEST
from lakehouse.semantics.epoch_time import moment_text, to_datetime
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True, slots=True)
class ChosenRecords:
    """Records of a topic: of the complete ticks from `first` to `last`, and up to `moment`, an event time or offsets.

    `topic_id` is the topic's present id, `next` has its first offsets that are not in bronze, by partition.
    """

    topic: str
    first: int
    last: int
    complete: int
    moment: AtEvent | AtOffsets | None
    topic_id: str | None
    next: dict[int, int]

    def filter(self) -> ds.Expression:
        row_filter = ticks_between(self.first, self.last)
        if isinstance(self.moment, AtEvent):
            row_filter &= bronze_field("timestamp") <= pa.scalar(to_datetime(self.moment.ms), pa.timestamp("us", "UTC"))
        elif isinstance(self.moment, AtOffsets):
            cut = Cut(
                self.last, offsets=self.moment.offsets, ids={self.topic: self.topic_id} if self.topic_id else None
            )
            row_filter &= cut.lies_before(*map(bronze_field, ("topic", "topic_id", "partition", "offset")))
        return row_filter


def choose_records(layout: Layout, topic: str, past_moment: At | None, from_tick: int | None) -> ChosenRecords:
    """Return the records of a topic at a moment; None is now. A commit time means the last tick that bronze had then.

    Offsets belong to the present topic; the records of an earlier topic of its name came before them.
    Raises NotFound for a topic or a moment that bronze does not have, ConfigError for a moment that a topic can't have.
    """
    if topic not in (bronze_topics := reader.table_names(layout, "bronze")):
        raise NotFound(f"topic {topic!r} is not in bronze. There are: {', '.join(bronze_topics) or 'no topics yet'}.")
    if isinstance(past_moment, AtVersion):
        raise ConfigError(
            f"{past_moment}: versions are of tables; for a topic, expected a tick, a time, or offsets. `lakehouse past "
            f"log bronze.{topic}` lists the ticks."
        )
    complete_tick = reader.read_progress(reader.open_table(layout.records, "bronze"), INGEST).tick
    first_tick, last_tick = from_tick or 0, complete_tick
    if isinstance(past_moment, AtTick | AtCommit):
        last_tick = past_moment.tick if isinstance(past_moment, AtTick) else _tick_at_time(layout, past_moment)
    for tick in (first_tick, last_tick):
        if tick > complete_tick:
            raise NotFound(
                f"tick {tick}: bronze is at tick {complete_tick}. `lakehouse past log bronze.{topic}` lists them."
            )
    if first_tick > last_tick:
        raise ConfigError(f"from tick {first_tick} to tick {last_tick}: expected the smaller one first.")
    topic_id, next_offsets = _topic_end(layout, topic, complete_tick)
    upper_bound = past_moment if isinstance(past_moment, AtEvent | AtOffsets) else None
    chosen_records = ChosenRecords(topic, first_tick, last_tick, complete_tick, upper_bound, topic_id, next_offsets)
    if isinstance(past_moment, AtOffsets):
        _check_chosen_offsets(chosen_records, past_moment)
    return chosen_records


def _topic_end(layout: Layout, topic: str, complete_tick: int) -> tuple[str | None, dict[int, int]]:
    """Return the present id of a topic, and the first offset of each partition that is not in bronze.

    They come from the last tick's commit, or from the rows if the log no longer has it.
    """
    topic_state = reader.read_bronze_coverage(layout).topics.get(topic)
    if topic_state is not None:
        return topic_state.id, dict(topic_state.next)
    topic_ends = LakeFiles(layout).topic_ends([topic], complete_tick).get(topic)
    return (None, {}) if topic_ends is None else (topic_ends.id, dict(topic_ends.next))


def _tick_at_time(layout: Layout, commit_moment: AtCommit) -> int:
    """Return the last tick that bronze had at a time of the wall clock."""
    commit_ms = commit_moment.ms
    for commit_number, commit in enumerate(reader.walk_commits(layout.records, "bronze")):
        metadata, commit_ms = reader.parse_commit(commit, layout.records), commit_time_ms(commit)
        if commit_number == 0 and commit_moment.ms > max(commit_ms, time.time() * 1000):
            raise NotFound(
                f"{commit_moment}: that time is in the future, so it can't be read yet. Name an earlier one."
            )
        if metadata and isinstance(metadata.content, BronzeTick) and commit_ms <= commit_moment.ms:
            return metadata.tick
    raise NotFound(
        f"{commit_moment}: bronze's log has no tick of that time or before; it begins at {moment_text(commit_ms)}."
    )


def _check_chosen_offsets(chosen_records: ChosenRecords, offsets_moment: AtOffsets) -> None:
    topic = chosen_records.topic
    if chosen_records.topic_id is None:
        raise NotFound(f"{offsets_moment}: bronze has no record of topic {topic!r} yet. Run its application first.")
    named_offsets = offsets_moment.offsets.get(topic, {})
    if missing_partitions := [partition for partition in sorted(chosen_records.next) if partition not in named_offsets]:
        raise ConfigError(
            f"{offsets_moment}: partition {missing_partitions[0]} of topic {topic!r} is not among them; expected the "
            "first offset not taken "
            f"in of each: {','.join(f'{topic}/{p}={n}' for p, n in sorted(chosen_records.next.items()))}."
        )
    for partition, end_offset in sorted(named_offsets.items()):
        if end_offset > chosen_records.next.get(partition, 0):
            raise NotFound(
                f"{topic}/{partition}={end_offset}: bronze has this partition up to offset "
                f"{chosen_records.next.get(partition, 0)}, "
                "exclusive. Run its application first, or name an earlier offset."
            )


def ticks_between(first_tick: int, last_tick: int) -> ds.Expression:
    """Return the condition for rows of the ticks from `first_tick` to `last_tick`."""
    return (bronze_field("tick") >= first_tick) & (bronze_field("tick") <= last_tick)


def bronze_field(name: str) -> ds.Expression:
    """Return a column of bronze."""
    import pyarrow.dataset as ds  # imports pandas too; only reads of rows should wait for that

    return ds.field(name)
