"""Which tables can be restored from their changelog, and whether one fits the tables above it in the lake.

A table that reads tables goes on from two things: its own rows, and the rows that the tables above it had then. So it
is restored after these, each from its own changelog, and all changelogs must have ended at the same tick.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lakehouse.errors import PlanError, StorageError
from lakehouse.kafka.covers import Cover, NextOffsets, still_there
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.properties import RESTORED, SKIP
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import looked_up_by_time, meetings
from lakehouse.plan.table import Table
from lakehouse.run.start.standing import restored_of
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.transaction import properties

_INSTEAD = "Build it from bronze: run its application on a lake that has the topics' records."


def refuse_kind(table: Table) -> None:
    """Raise PlanError for a table that goes on from more than its topics have."""
    if looking_up := [part.reads[0].name for part in meetings(table.stream) if part.reads]:
        raise PlanError(
            f"table {table.name!r} is made from a join of streams after {looking_up[0]} was looked up: what a record "
            f"that waits for others found there is in no changelog. {_INSTEAD}"
        )
    by_arrival = [join.table for join in _joins(table.stream) if join.as_of != "event time"]
    for of in looked_up_by_time(table.stream):
        if of.stream.reads or meetings(of.stream) or of in by_arrival:
            raise PlanError(
                f"table {table.name!r} looks up what {of.name} was at earlier times: no changelog has all of that, and "
                f"not all that makes {of.name} is in its own topic. {_INSTEAD}"
            )


def refuse_alone(opened: OpenTable) -> None:
    """Raise PlanError for a table that reads tables which this lake does not have by a restore."""
    missing = [above.name for above in _above(opened) if _restored(opened, above) is None]
    if missing:
        raise PlanError(
            f"table {opened.name!r} is made from {', '.join(missing)}: it goes on from the rows that are there when "
            f"its own changelog ends. Restore {missing[0]} first, from its own topic, in a lake that does not have it; "
            f"{opened.name} afterwards. Or build all of it from bronze, in a lake that has the topics' records."
        )


def check_fits(opened: OpenTable, cover: Cover) -> None:
    """Raise StorageError if a table above was restored as of another moment than the one that a cover tells."""
    for above in _above(opened):
        known = _restored(opened, above)
        assert known is not None
        tick, held = known
        if tick != cover.tick or any(cover.next.get(topic) != of for topic, of in held.items()):
            ends = "after other records than" if tick == cover.tick else f"at tick {cover.tick}, not at tick {tick} as"
            raise StorageError(
                f"table {opened.name!r}: its changelog ends {ends} that from which {above.name!r} was restored: rows "
                "of two moments don't fit each other. Let the job that publishes them catch up, and stop it; then "
                "restore both into another lake."
            )


def _above(opened: OpenTable) -> list[Table]:
    """The tables above that are restored, too: what a row was at earlier times is made of a topic's records."""
    by_time = looked_up_by_time(opened.table.stream)
    return [above for above in opened.table.stream.reads if above not in by_time]


def needs_covered(table: Table) -> bool:
    """Say whether records that a table's changelog covers still count for later ones."""
    return bool(meetings(table.stream) or looked_up_by_time(table.stream))


def check_waiting(cluster: Cluster, cover: Cover, table: Table) -> NextOffsets:
    """Return the covered offsets of the topics that there are, of a table that needs covered records.

    Raises StorageError if Kafka no longer has one that counts: that could meet a later one in a join of streams, or
    tells what a table was at an earlier time.
    """
    wanted = {topic: cover.needed or {} for part in meetings(table.stream) for topic in part.topics}
    wanted |= {topic: {} for of in looked_up_by_time(table.stream) for topic in of.stream.topics}
    there = set(cluster.names())
    facts = cluster.topics([name for name in wanted if name in there])
    if gone := [name for name in wanted if name not in facts]:
        raise _lost(table, f"there is no topic {gone[0]!r}")
    for name, fact in facts.items():
        needed = wanted[name]
        if "compact" in (cluster.config(name).get("cleanup.policy") or ""):
            raise _lost(table, f"topic {name!r} is compacted")
        known = cover.next.get(fact.id, {})
        kept = cluster.offsets((name, int(partition)) for partition in known)
        for partition, end in known.items():
            first, begin = kept[name, int(partition)][0], needed.get(fact.id, {}).get(partition, 0)
            if begin < min(first, end):
                raise _lost(table, f"{name}/{partition} begins at offset {first:,}, and those from {begin:,} on count")
    left, needed = still_there(cluster, table.stream.topics, cover.next), cover.needed or {}
    gone_ids = {*cover.next} - {*left}
    if any(end > needed.get(of, {}).get(part, 0) for of in gone_ids for part, end in cover.next[of].items()):
        raise _lost(table, "a topic was deleted, or recreated, with such records")
    return left


def _lost(table: Table, why: str) -> StorageError:
    return StorageError(
        f"table {table.name!r}: records that its changelog covers still count, in a join of streams or for what a "
        f"table was at earlier times, and Kafka does not have all of them any more: {why}. Build the table from "
        "bronze, in a lake that has them. Or, for a join of streams, let the lake that publishes go on until their "
        "windows have closed, with the grace, and restore then."
    )


def _restored(opened: OpenTable, above: Table) -> tuple[int, NextOffsets] | None:
    """The tick at which the changelog of a restored table ended, and the offsets that it held; None for others."""
    live = opened.lake.open(above)
    said = properties(opened.spark, live.visible.path) if live.exists else {}
    restored, skip = restored_of(said.get(RESTORED)), said.get(SKIP)
    return None if restored is None or skip is None else (restored.before[-1][1], json.loads(skip))


def _joins(stream: Stream) -> Iterator[TableJoin]:
    if isinstance(stream.source, TableJoin):
        yield stream.source
    for part in stream.source.parts:
        yield from _joins(part)
