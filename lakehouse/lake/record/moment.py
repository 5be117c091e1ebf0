"""The records of a topic that a moment means: as a filter over bronze, without Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.moment.files import Files
from lakehouse.lake.place import INGEST
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, moment, written

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True, slots=True)
class Chosen:
    """Records of a topic: those of the complete ticks from `first` to `last`, and up to `at`, an event time or offsets.

    `topic_id` is the id that the topic has now, `next` its first offsets that bronze does not have.
    """

    topic: str
    first: int
    last: int
    complete: int
    at: AtEvent | AtOffsets | None
    topic_id: str | None
    next: dict[int, int]

    def filter(self) -> ds.Expression:
        chosen = between(self.first, self.last)
        if isinstance(self.at, AtEvent):
            chosen &= field("timestamp") <= pa.scalar(moment(self.at.ms), pa.timestamp("us", "UTC"))
        elif isinstance(self.at, AtOffsets):
            cut = Cut(self.last, offsets=self.at.offsets, ids={self.topic: self.topic_id} if self.topic_id else None)
            chosen &= cut.lies_before(*map(field, ("topic", "topic_id", "partition", "offset")))
        return chosen


def chosen(layout: Layout, topic: str, at: At | None, from_tick: int | None) -> Chosen:
    """Return what a moment means for a topic; None is now. A commit time means the last tick that bronze had then.

    Offsets belong to the topic as it is now; the records of an earlier topic of its name came before them.
    Raises NotFound for a topic or a moment that bronze does not have, ConfigError for a moment that a topic can't have.
    """
    reader.local_root(layout)
    if topic not in (known := reader.names(layout, "bronze")):
        raise NotFound(f"topic {topic!r} is not in bronze. There are: {', '.join(known) or 'no topics yet'}.")
    if isinstance(at, AtVersion):
        raise ConfigError(
            f"{at}: versions are of tables; for a topic, expected a tick, a time, or offsets. `lakehouse past log "
            f"bronze.{topic}` lists the ticks."
        )
    complete = reader.read_progress(reader.open_table(layout.records, "bronze"), INGEST).tick
    first, last = from_tick or 0, complete
    if isinstance(at, AtTick | AtCommit):
        last = at.tick if isinstance(at, AtTick) else _tick_at(layout, at)
    for tick in (first, last):
        if tick > complete:
            raise NotFound(
                f"tick {tick}: bronze is at tick {complete}. `lakehouse past log bronze.{topic}` lists them."
            )
    if first > last:
        raise ConfigError(f"from tick {first} to tick {last}: expected the smaller one first.")
    topic_id, following = _end(layout, topic, complete)
    upto = at if isinstance(at, AtEvent | AtOffsets) else None
    found = Chosen(topic, first, last, complete, upto, topic_id, following)
    if isinstance(at, AtOffsets):
        _check_offsets(found, at)
    return found


def _end(layout: Layout, topic: str, complete: int) -> tuple[str | None, dict[int, int]]:
    """The id that a topic has now, and the first offset of each partition that bronze does not have.

    From the last tick's commit; from the rows if the log no longer has it.
    """
    said = reader.bronze_covers(layout).get("topics", {}).get(topic)
    if said is not None:
        return said["id"], {int(partition): offset for partition, offset in said["next"].items()}
    ends = Files(layout).ends([topic], complete).get(topic)
    return (None, {}) if ends is None else (ends.id, dict(ends.next))


def _tick_at(layout: Layout, at: AtCommit) -> int:
    """Return the last tick that bronze had at a time of the wall clock."""
    begins = at.ms
    for number, commit in enumerate(reader.commits(reader.open_table(layout.records, "bronze"))):
        said, begins = reader.user_metadata(commit), reader.time_ms(commit)
        if number == 0 and at.ms > max(begins, time.time() * 1000):
            raise NotFound(f"{at}: that time is in the future, so it can't be read yet. Name an earlier one.")
        if "topics" in said and begins <= at.ms:
            return int(said["tick"])
    raise NotFound(f"{at}: bronze's log has no tick of that time or before; it begins at {written(begins)}.")


def _check_offsets(found: Chosen, at: AtOffsets) -> None:
    topic = found.topic
    if found.topic_id is None:
        raise NotFound(f"{at}: bronze has no record of topic {topic!r} yet. Run its application first.")
    named = at.offsets.get(topic, {})
    if missing := [partition for partition in sorted(found.next) if partition not in named]:
        raise ConfigError(
            f"{at}: partition {missing[0]} of topic {topic!r} is not among them; expected the first offset not taken "
            f"in of each: {','.join(f'{topic}/{p}={n}' for p, n in sorted(found.next.items()))}."
        )
    for partition, end in sorted(named.items()):
        if end > found.next.get(partition, 0):
            raise NotFound(
                f"{topic}/{partition}={end}: bronze has this partition up to offset {found.next.get(partition, 0)}, "
                "exclusive. Run its application first, or name an earlier offset."
            )


def between(first: int, last: int) -> ds.Expression:
    """The rows of the ticks from `first` to `last`."""
    return (field("tick") >= first) & (field("tick") <= last)


def field(name: str) -> ds.Expression:
    """A column of bronze."""
    import pyarrow.dataset as ds  # imports pandas as well, which only reads of rows have to wait for

    return ds.field(name)
