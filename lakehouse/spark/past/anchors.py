"""Anchors: where reads of the past begin. They are the versions that Delta still has, and copies that are kept longer.

A copy is made by policy (upkeep), and before a table is replaced as a whole; it holds what the table keeps, and for
final results also the visible rows. Below <lake>/anchors/<table>:

    kept, seen   the rows, by `_anchor`, the tick
    index        a row an anchor, written last: its tick, the largest event time of its records, its clock
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql import functions as F

from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.commits import Commit, ours
from lakehouse.semantics.epoch import EVER
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.shown import is_final
from lakehouse.spark.past import counts
from lakehouse.spark.transaction import log_of

if TYPE_CHECKING:
    from lakehouse.lake.moment.cut import Cut

INDEX = "tick bigint, made_at timestamp, reason string, through bigint, clock string"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A table's state at a tick; for final results also the visible rows."""

    tick: int
    rows: DataFrame
    visible: DataFrame | None = None


def nearest(opened: OpenTable, cut: Cut) -> Anchor | None:
    """Return the last anchor that holds only records that count; None if there is none."""
    last = cut.tick
    if cut.offsets is not None:
        last = min(last, _last_tick_before(opened, cut))

    def counts(tick: int, through: int | None) -> bool:
        return tick <= last and (cut.event_ms is None or (through is not None and through <= cut.event_ms))

    copies = [row for row in index(opened) if counts(row["tick"], row["through"])]
    newest = copies[0]["tick"] if copies else None
    for commit, through in _versions(opened, last, cut.event_ms):
        if newest is not None and commit.tick < newest:
            break
        try:
            if counts(commit.tick, through) and (found := _version_of(opened, commit)) is not None:
                return found
        except AnalysisException:
            break  # Delta no longer has it, and none before it
    return None if newest is None else _copied(opened, newest)


def keep(opened: OpenTable, tick: int, reason: str) -> int | None:
    """Copy the table's last version up to a tick as an anchor; return its tick, None if there is no such version."""
    for commit, through in _versions(opened, tick):
        try:
            if (found := _version_of(opened, commit)) is None:
                continue
        except AnalysisException:
            return None  # Delta no longer has it, and none before it
        if all(row["tick"] != found.tick for row in index(opened)):
            _copy(opened, found, commit, through, reason)
        return found.tick
    return None


def salvage(opened: OpenTable, into: Layout, before: Mapping[str, int]) -> int | None:
    """Copy the newest version that can be read whole as an anchor of another lake; return its tick, None if none can.

    before: by a table's path, the first version that can't be trusted.
    """
    for commit, through in _versions(opened, EVER):
        try:
            found = _version_of(opened, commit, before)
            if found is not None:
                _copy(opened.at(into), found, commit, through, "salvage")
                return found.tick
        except (PySparkException, Py4JJavaError):
            continue  # a file of it is lost, or damaged
    return None


def _copy(opened: OpenTable, found: Anchor, commit: Commit, through: int | None, reason: str) -> None:
    folder = opened.layout.anchors(opened.name)
    for name, rows in (("kept", found.rows), ("seen", found.visible)):
        if rows is not None:
            # This replaces what a killed copy of the tick left: the index does not know of it.
            made = _writer(rows.withColumn("_anchor", F.lit(found.tick))).partitionBy("_anchor").mode("overwrite")
            made.option("replaceWhere", f"_anchor = {found.tick}").save(f"{folder}/{name}")
    clock = json.dumps(commit.said["clock"]) if "clock" in commit.said else None
    row = (found.tick, datetime.now(UTC), reason, through, clock)
    _writer(opened.spark.createDataFrame([row], INDEX).coalesce(1)).mode("append").save(f"{folder}/index")


def drop(opened: OpenTable, ticks: list[int]) -> None:
    """Remove copies, from the index first."""
    for name, column in (("index", "tick"), ("kept", "_anchor"), ("seen", "_anchor")):
        path = f"{opened.layout.anchors(opened.name)}/{name}"
        if ticks and opened.lake.exists(path):
            DeltaTable.forPath(opened.spark, path).delete(F.col(column).isin(ticks))


def index(opened: OpenTable) -> list[Any]:
    """Return all copies, the newest first: rows of `INDEX`, with `made_at` in milliseconds."""
    path = f"{opened.layout.anchors(opened.name)}/index"
    if not opened.lake.exists(path):
        return []
    rows = opened.lake.read(path).orderBy(F.desc("tick"))
    return rows.withColumn("made_at", F.unix_millis("made_at")).collect()


def _writer(rows: DataFrame) -> DataFrameWriter:
    # Columns may have been added since the last copy.
    return rows.write.format("delta").option("mergeSchema", "true")


def _copied(opened: OpenTable, tick: int) -> Anchor:
    def of(name: str) -> DataFrame:
        frame = opened.lake.read(f"{opened.layout.anchors(opened.name)}/{name}")
        return frame.where(F.col("_anchor") == tick).drop("_anchor")

    return Anchor(tick, of("kept"), of("seen") if is_final(opened.table) else None)


def _last_tick_before(opened: OpenTable, cut: Cut) -> int:
    """The last tick up to which no record of the table's topics lies at or after these offsets."""
    rows = bronze.between(bronze.of_stream(opened.lake, opened.table.stream), 0, cut.tick)
    first = rows.where(~counts.by_offsets(cut)).agg(F.min("tick")).first()
    return cut.tick if first is None or first[0] is None else int(first[0]) - 1


def _versions(opened: OpenTable, last: int, event_ms: int | None = None) -> Iterator[tuple[Commit, int | None]]:
    """The table's commits up to a tick, each with the largest event time up to it, the newest first.

    event_ms: those that hold a later event time may be left out.
    """
    place = opened.state
    if not opened.lake.exists(place.path):
        return

    def past(said: Mapping[str, Any]) -> bool | None:
        if said["tick"] > last:
            return True
        if event_ms is None:
            return False
        if "times" not in said:
            return None
        through = said["times"]["through"]
        return through is not None and through > event_ms

    waiting: list[Commit] = []  # commits without records: the commits before them tell the event times
    for commit in ours(log_of(opened.spark, place.path), place.name, past):
        waiting.append(commit)
        if "times" in commit.said:
            yield from ((item, commit.said["times"]["through"]) for item in waiting if item.tick <= last)
            waiting = []
    yield from ((item, None) for item in waiting if item.tick <= last)


def _version_of(opened: OpenTable, commit: Commit, before: Mapping[str, int] | None = None) -> Anchor | None:
    """Open a version of the state, with that of the visible table; None if one is missing, or not trusted.

    before: by path, the first version of a table that can't be trusted. Raises AnalysisException if Delta no longer
    has the version.
    """
    place, tick = opened.state, commit.tick
    visible = opened.visible
    # Others' commits after ours belong to it: OPTIMIZE, or somebody's UPDATE.
    last = _trusted(commit, (before or {}).get(place.path))
    if last is None:
        return None
    rows = opened.lake.past(place.path, last)
    if not is_final(opened.table):
        return Anchor(tick, rows)
    # The visible table is committed after the state: its commit may not be there yet.
    seen = [c for c in opened.lake.commits(visible, tick, tick) if c.tick == tick]
    last = _trusted(seen[-1], (before or {}).get(visible.path)) if seen else None
    return None if last is None else Anchor(tick, rows, opened.lake.past(visible.path, last))


def _trusted(commit: Commit, before: int | None) -> int | None:
    """The last version that is the table at a commit; None if the commit itself can't be trusted."""
    if before is None:
        return commit.last
    return min(commit.last, before - 1) if commit.version < before else None
