"""A table at a tick: which of its versions that is.

A batch may take in several ticks at once, so not every tick is a version of every table. A version stands for all ticks
from its own up to the one before which the next version's records came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.commit_log import CommitLog, Said
from lakehouse.lake.layout import Layout
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.table.tables import Place, visible
from lakehouse.spark.transaction import app_id, log_of, read_progress

SHOWN = 8  # commits whose ticks an error names


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of ours: it took the table from `from_tick` (exclusive) to `tick`. `said` is what it says of itself.

    last: the last version before our next commit. Others' commits lie in between: OPTIMIZE, or somebody's UPDATE.
    """

    version: int
    tick: int
    from_tick: int
    last: int
    said: Mapping[str, Any] = field(default_factory=dict)
    time_ms: int = 0


def commits(
    spark: SparkSession, path: str, name: str, back_to: int | None = None, up_to: int | None = None
) -> list[Commit]:
    """Return a table's commits by lakehouse that Delta's log still has, oldest first.

    back_to: the oldest tick that is asked for; commits before the one that reached it may be left out. up_to: the
    newest one; commits after the first that went past it are left out.
    """
    found: list[Commit] = []
    for commit in ours(log_of(spark, path), name, None if up_to is None else lambda said: said["tick"] > up_to):
        found.append(commit)
        if back_to is not None and commit.tick <= back_to and "from_tick" in commit.said:
            break
    return found[::-1]


def ours(log: CommitLog, name: str, past: Callable[[Mapping[str, Any]], bool | None] | None = None) -> Iterator[Commit]:
    """Give a table's commits by lakehouse, the newest first; the log is read as far as they are asked for.

    past: of what a commit says, whether it is past what is asked for (see `CommitLog.first`): those after the first
    that is past it are left out.
    """
    app = app_id(name)

    def is_ours(said: Said) -> bool:
        return said.metadata.get("app") == app and said.operation in ("MERGE", "WRITE")

    last = log.newest
    if past is not None and (first := log.first(lambda s: past(s.metadata) if is_ours(s) else None)) is not None:
        after = (version for version in range(first + 1, log.newest + 1) if (s := log.at(version)) and is_ours(s))
        last = next(after, log.newest + 1) - 1
    for said in log.back(last):
        if is_ours(said):
            tick = said.metadata["tick"]
            from_tick = said.metadata.get("from_tick", tick)
            yield Commit(said.version, tick, from_tick, last, said.metadata, said.time_ms)
            last = said.version - 1


def version_at_tick(spark: SparkSession, layout: Layout, table: Table, tick: int, place: Place | None = None) -> int:
    """Return the version that is the table at a tick. Raises NotFound, and says which ticks can be had.

    place: where it lies; what it keeps (`tables.state`) instead of what is seen.
    """
    place = place or visible(layout, table)
    if not DeltaTable.isDeltaTable(spark, place.path):
        raise NotFound(f"table {table.name!r} does not exist in {layout.root}. Run its application first.")
    complete = read_progress(spark, layout.records, bronze.NAME).tick
    known = commits(spark, place.path, place.name, tick, tick)
    if tick <= complete and (found := last_before(spark, layout, table, known, tick)) is not None:
        return found.last
    newest = islice(ours(log_of(spark, place.path), place.name), SHOWN)
    ticks = sorted({commit.tick for commit in newest})
    shown = ", ".join(map(str, ticks)) or "none yet"
    raise NotFound(
        f"table {table.name!r} has no version for tick {tick}. "
        f"The last ticks that it has: {shown}; bronze is at {complete}."
    )


def last_before(spark: SparkSession, layout: Layout, table: Table, known: list[Commit], tick: int) -> Commit | None:
    """Return the commit that is the table at a tick; None if it went past the tick in one batch."""
    before = [commit for commit in known if commit.tick <= tick]
    if not before:
        return None
    last = before[-1]
    later = known[known.index(last) + 1 :]
    reached = bool(later) and tick <= later[0].from_tick
    return last if reached or not has_rows(spark, layout, table, last.tick, tick) else None


def has_rows(spark: SparkSession, layout: Layout, table: Table, after: int, to: int) -> bool:
    """Say whether bronze has records for a table in the ticks (after, to]."""
    if to <= after:
        return False
    return not bronze.between(bronze.of_stream(spark, layout, table.stream), after, to).limit(1).isEmpty()


def common_tick(spark: SparkSession, layout: Layout, tables: Iterable[Table]) -> int:
    """Return the last tick that all of these tables have taken in: read at it, they are consistent with each other."""
    complete = read_progress(spark, layout.records, bronze.NAME).tick
    ticks = [complete]
    reached: list[tuple[Table, int]] = []
    for table in tables:
        done = read_progress(spark, layout.silver(table.name), table.name).tick
        reached.append((table, done))
        waiting = (
            bronze.between(bronze.of_stream(spark, layout, table.stream), done, complete).agg(F.min("tick")).first()
        )
        decided = interventions.waiting(spark, layout, table.name, done, complete)
        if decided or (waiting and waiting[0] is not None):
            ticks.append(done)
    tick = min(ticks)
    # A table may have gone past that tick in one batch: then the common one is earlier.
    while (earlier := _tick_before(spark, layout, [table for table, done in reached if done > tick], tick)) < tick:
        tick = earlier
    return tick


def _tick_before(spark: SparkSession, layout: Layout, tables: Iterable[Table], tick: int) -> int:
    """Return the tick itself if all of these tables have it, else the last one before it of one that has not."""
    for table in tables:
        known = commits(spark, layout.silver(table.name), table.name, tick, tick)
        if last_before(spark, layout, table, known, tick) is None:
            return max((commit.tick for commit in known if commit.tick < tick), default=NO_TICK)
    return tick


def read_version(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """Return the rows of the table at `path`, hidden columns too, at a version or now."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(path)
