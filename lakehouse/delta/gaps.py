"""Offsets that Kafka lost before bronze had them: found, said with the exact range, and written down when accepted."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.delta.bronze import TopicState
from lakehouse.delta.layout import Layout

SCHEMA = (
    "topic string, topic_id string, partition int, from_offset bigint, to_offset bigint, reason string, "
    "tick bigint, found_at timestamp"
)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [from_offset, to_offset) of a partition that can't be had; `to_offset` is None where Kafka can't tell."""

    topic: str
    topic_id: str
    partition: int
    from_offset: int
    to_offset: int | None
    reason: str

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
            why = "the topic was deleted" if here is None else f"the topic was deleted and created anew (id {here.id})"
            gaps += [Gap(name, state.id, p, offset, None, why) for p, offset in sorted(state.next.items())]
            continue
        for partition, expected in sorted(state.next.items()):
            if partition not in here.offsets:
                continue
            earliest, end = here.offsets[partition]
            if earliest > expected:
                why = "expired before it was ingested (retention, or records deleted)"
                gaps.append(Gap(name, state.id, partition, expected, earliest, why))
            elif end < expected:
                why = f"Kafka ends at offset {end}, behind what bronze has: the partition's log was cut"
                gaps.append(Gap(name, state.id, partition, end, expected, why))
    return gaps


def record(spark: SparkSession, layout: Layout, gaps: list[Gap], tick: int) -> None:
    """Write accepted gaps down, once each. `tick` is the last complete tick before them."""
    if not DeltaTable.isDeltaTable(spark, layout.gaps):
        DeltaTable.createIfNotExists(spark).location(layout.gaps).addColumns(
            spark.createDataFrame([], SCHEMA).schema
        ).execute()
    known = spark.read.format("delta").load(layout.gaps).select("topic_id", "partition", "from_offset").collect()
    written = {tuple(row) for row in known}
    gaps = [gap for gap in gaps if (gap.topic_id, gap.partition, gap.from_offset) not in written]
    moment = datetime.datetime.now(datetime.UTC)
    rows = [(g.topic, g.topic_id, g.partition, g.from_offset, g.to_offset, g.reason, tick, moment) for g in gaps]
    if rows:
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").mode("append").save(layout.gaps)
