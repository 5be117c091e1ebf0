"""Which tables can be restored from their changelog, and whether one fits the tables above it in the lake.

A table that reads tables goes on from two things: its own rows, and the rows that the tables above it had then. So it
is restored after these, each from its own changelog, and all changelogs must have ended at the same tick.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lakehouse.errors import PlanError, StorageError
from lakehouse.kafka.covers import Cover, NextOffsets
from lakehouse.lake.properties import RESTORED, SKIP
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Table
from lakehouse.run.start.standing import restored_of
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.transaction import properties

_INSTEAD = "Build it from bronze: run its application on a lake that has the topics' records."


def refuse_kind(table: Table) -> None:
    """Raise PlanError for a table that goes on from more than its topics have."""
    if meetings(table.stream):
        raise PlanError(
            f"table {table.name!r} is made from a join of streams: the records that wait for others are in no "
            f"changelog. {_INSTEAD}"
        )
    if earlier := [join.table.name for join in _joins(table.stream) if join.as_of == "event time"]:
        raise PlanError(
            f"table {table.name!r} looks up what {earlier[0]} was at earlier times: no changelog has all of that. "
            f"{_INSTEAD}"
        )


def refuse_alone(opened: OpenTable) -> None:
    """Raise PlanError for a table that reads tables which this lake does not have by a restore."""
    missing = [above.name for above in opened.table.stream.reads if _restored(opened, above) is None]
    if missing:
        raise PlanError(
            f"table {opened.name!r} is made from {', '.join(missing)}: it goes on from the rows that are there when "
            f"its own changelog ends. Restore {missing[0]} first, from its own topic, in a lake that does not have it; "
            f"{opened.name} afterwards. Or build all of it from bronze, in a lake that has the topics' records."
        )


def check_fits(opened: OpenTable, cover: Cover) -> None:
    """Raise StorageError if a table above was restored as of another moment than the one that a cover tells."""
    for above in opened.table.stream.reads:
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
