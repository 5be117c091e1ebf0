"""Offsets that Kafka lost before bronze had them: detected, reported as exact ranges, and recorded when accepted."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakehouse.spark.bronze.bronze import BronzeState, TopicState
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import check_epoch, new_table

CUT = "the partition's log was cut"
SCHEMA = (
    "topic string, topic_id string, partition int, from_offset bigint, to_offset bigint, reason string, "
    "tick bigint, found_at timestamp"
)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [from_offset, to_offset) of a partition that are lost; `to_offset` is None if Kafka can't tell."""

    topic: str
    topic_id: str
    partition: int
    from_offset: int
    to_offset: int | None
    reason: str

    @property
    def is_cut(self) -> bool:
        """Whether the log was cut: Kafka will give these offsets again, to other records. It can't be accepted."""
        return self.reason.endswith(CUT)

    def __str__(self) -> str:
        end = self.to_offset if self.to_offset is not None else "unknown"
        where = f"topic {self.topic} (id {self.topic_id}) partition {self.partition}"
        return f"{where}: offsets [{self.from_offset}, {end}): {self.reason}"


@dataclass(frozen=True, slots=True)
class TopicNow:
    """A topic as Kafka has it: its id, and the earliest and the next offset of each partition."""

    id: str
    offsets: Mapping[int, tuple[int, int]]


def find_gaps(known: Mapping[str, TopicState], now: Mapping[str, TopicNow], topics: Iterable[str]) -> list[Gap]:
    """Compare what bronze has with what Kafka has, over these topics; return what is lost."""
    gaps: list[Gap] = []
    for name in topics:
        state = known.get(name)
        if state is None:
            continue
        here = now.get(name)
        if here is None or here.id != state.id:
            if not state.last:
                continue  # no tick has a record of it: see `never_begun`
            why = "the topic was deleted" if here is None else f"the topic was deleted and recreated (id {here.id})"
            gaps += [Gap(name, state.id, p, offset, None, why) for p, offset in sorted(state.next.items())]
            continue
        for partition, (earliest, end) in sorted(here.offsets.items()):
            # A partition that is unknown to bronze is a new one: its first record is awaited.
            expected = state.next.get(partition, 0)
            if earliest > expected:
                why = "expired before it was ingested (retention, or records deleted)"
                gaps.append(Gap(name, state.id, partition, expected, earliest, why))
            elif end < expected:
                why = f"Kafka ends at offset {end}, behind what bronze has: {CUT}"
                gaps.append(Gap(name, state.id, partition, end, expected, why))
    return gaps


def never_begun(known: Mapping[str, TopicState], now: Mapping[str, TopicNow]) -> list[Gap]:
    """Return, as gaps, the topics that were recreated before any tick had a record of them.

    Nothing is known to be lost, so nothing stops; what the deleted topic may have had is recorded as unknown. It must
    be forgotten with its id: the records of the new topic belong to another topic.
    """
    why = "the topic was deleted and recreated (id {}) before bronze had a record of it"
    return [
        Gap(name, state.id, partition, offset, None, why.format(now[name].id))
        for name, state in sorted(known.items())
        if name in now and now[name].id != state.id and not state.last
        for partition, offset in sorted((state.next or {0: 0}).items())
    ]


def go_on_after(topics: Mapping[str, TopicState], gaps: Iterable[Gap]) -> dict[str, TopicState]:
    """Return the state with these gaps accepted: the offsets after them come next; a lost topic is forgotten."""
    after = dict(topics)
    for gap in gaps:
        state = after.get(gap.topic)
        if state is None or state.id != gap.topic_id:
            continue
        if gap.to_offset is None:
            del after[gap.topic]
        else:
            expected = max(gap.to_offset, state.next.get(gap.partition, 0))
            after[gap.topic] = replace(state, next={**state.next, gap.partition: expected})
    return after


def accepted(lake: OpenLake) -> list[Gap]:
    """Return the recorded gaps."""
    if not lake.exists(lake.layout.gaps):
        return []
    columns = ("topic", "topic_id", "partition", "from_offset", "to_offset", "reason")
    rows = lake.read(lake.layout.gaps).orderBy("tick", "found_at").select(*columns)
    return [Gap(*row) for row in rows.collect()]


def record(lake: OpenLake, gaps: list[Gap], state: BronzeState) -> None:
    """Record accepted gaps, once each. `state`: bronze after the last complete tick before them."""
    if not lake.exists(lake.layout.gaps):
        new_table(lake.spark, lake.layout.gaps, SCHEMA).execute()
    written = {(g.topic_id, g.partition, g.from_offset, g.to_offset) for g in accepted(lake)}
    gaps = [g for g in gaps if (g.topic_id, g.partition, g.from_offset, g.to_offset) not in written]
    moment = datetime.datetime.now(datetime.UTC)
    rows = [(g.topic, g.topic_id, g.partition, g.from_offset, g.to_offset, g.reason, state.tick, moment) for g in gaps]
    if rows:
        # Written twice they would say the same; but a writer that lost bronze may know gaps its successor does not.
        check_epoch(lake.spark, lake.bronze, state.epoch)
        lake.spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").mode("append").save(lake.layout.gaps)
