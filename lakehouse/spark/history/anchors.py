"""Anchors: where reads of the past begin. They are the versions that Delta still has, and copies that stay longer.

Upkeep makes copies by its policy, and whatever replaces a whole table makes one before. A copy holds the rows that the
table keeps, and for final results also the visible rows. Below <lake>/anchors/<table>:

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
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql import functions as F

from lakehouse.lake.commit_metadata import CommitMetadata, TableCommit
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.commits import Commit, walk_own_commits
from lakehouse.semantics.commit_number import EVER, NO_TICK
from lakehouse.spark.bronze import bronze
from lakehouse.spark.fold.visibility import is_final
from lakehouse.spark.history import cut_filter
from lakehouse.spark.jvm.failure import READ_ERRORS
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import timelines
from lakehouse.spark.transaction import commit_log_of

if TYPE_CHECKING:
    from lakehouse.lake.moment.cut import Cut

INDEX = "tick bigint, made_at timestamp, reason string, through bigint, clock string"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A table's state at a tick; for final results also the visible rows."""

    tick: int
    rows: DataFrame
    visible: DataFrame | None = None


def nearest_anchor(open_table: OpenTable, cut: Cut) -> Anchor | None:
    """Return the last anchor that holds only records that count; None if there is none, or if nothing tells."""
    last_tick = cut.tick
    if cut.event_ms is not None and _may_hold_later_input(open_table, cut.event_ms):
        return None
    if cut.offsets is not None:
        last_tick = min(last_tick, _last_tick_before(open_table, cut))

    def is_in_cut(tick: int, through: int | None) -> bool:
        return tick <= last_tick and (cut.event_ms is None or (through is not None and through <= cut.event_ms))

    copies = [row for row in read_index(open_table) if is_in_cut(row["tick"], row["through"])]
    newest_tick = copies[0]["tick"] if copies else None
    for commit, through in _commits_back(open_table, last_tick, cut.event_ms):
        if newest_tick is not None and commit.tick < newest_tick:
            break
        try:
            if is_in_cut(commit.tick, through) and (
                anchor := _open_version(open_table, commit, with_others=cut.is_whole)
            ):
                return anchor
        except AnalysisException:
            break  # Delta no longer has this version, nor any before it
    return None if newest_tick is None else _read_copy(open_table, newest_tick)


def _may_hold_later_input(open_table: OpenTable, event_ms: int) -> bool:
    """Say whether rows may hold what a record after an event time made of a table that they were made from."""
    if not open_table.table.stream.tables or not open_table.table_exists():
        return False
    return open_table.layout.beside is not None or timelines.timeline_of(open_table).may_hold_later_input(event_ms)


def keep_anchor(open_table: OpenTable, tick: int, reason: str) -> int | None:
    """Copy the table's last version up to a tick as an anchor; return its tick, or None if there is no such version."""
    if (last_version := _last_version(open_table, tick)) is None:
        return None
    anchor, commit, through = last_version
    if all(row["tick"] != anchor.tick for row in read_index(open_table)):
        _copy_anchor(open_table, anchor, commit, through, reason)
    return anchor.tick


def has_first_version(open_table: OpenTable) -> bool:
    """Say whether Delta still has the table as it was before its first tick, and a commit that says so."""
    # The oldest commits leave a log first: then the rest of a long log is not walked in vain.
    is_log_whole = commit_log_of(open_table.spark, open_table.state.path).info_at(0) is not None
    return is_log_whole and _last_version(open_table, NO_TICK) is not None


def _last_version(open_table: OpenTable, tick: int) -> tuple[Anchor, Commit, int | None] | None:
    """Return the table's last version up to a tick, its commit, and the largest event time; None if Delta has none."""
    for commit, through in _commits_back(open_table, tick):
        try:
            if (anchor := _open_version(open_table, commit)) is not None:
                return anchor, commit, through
        except AnalysisException:
            return None  # Delta no longer has this version, nor any before it
    return None


def salvage_anchor(open_table: OpenTable, target_layout: Layout, first_untrusted: Mapping[str, int]) -> int | None:
    """Copy the newest version that can be read whole as an anchor of another lake; return its tick, None if none can.

    first_untrusted: by a table's path, the first version that can't be trusted.
    """
    for commit, through in _commits_back(open_table, EVER):
        try:
            anchor = _open_version(open_table, commit, first_untrusted)
            if anchor is not None:
                _copy_anchor(open_table.with_layout(target_layout), anchor, commit, through, "salvage")
                return anchor.tick
        except READ_ERRORS:
            continue  # a file of it is lost, or damaged
    return None


def _copy_anchor(open_table: OpenTable, anchor: Anchor, commit: Commit, through: int | None, reason: str) -> None:
    folder = open_table.layout.anchors(open_table.name)
    for name, rows in (("kept", anchor.rows), ("seen", anchor.visible)):
        if rows is not None:
            # This replaces the rows that a killed copy of the tick left: the index does not list them.
            rows_writer = (
                _delta_writer(rows.withColumn("_anchor", F.lit(anchor.tick))).partitionBy("_anchor").mode("overwrite")
            )
            rows_writer.option("replaceWhere", f"_anchor = {anchor.tick}").save(f"{folder}/{name}")
    clock_text = json.dumps(commit.batch.clock.plain()) if commit.batch and commit.batch.clock else None
    index_row = (anchor.tick, datetime.now(UTC), reason, through, clock_text)
    _delta_writer(open_table.spark.createDataFrame([index_row], INDEX).coalesce(1)).mode("append").save(
        f"{folder}/index"
    )


def drop_anchors(open_table: OpenTable, ticks: list[int]) -> None:
    """Remove copies, from the index first."""
    for name, column in (("index", "tick"), ("kept", "_anchor"), ("seen", "_anchor")):
        table_path = f"{open_table.layout.anchors(open_table.name)}/{name}"
        if ticks and open_table.lake.exists(table_path):
            DeltaTable.forPath(open_table.spark, table_path).delete(F.col(column).isin(ticks))


def read_index(open_table: OpenTable) -> list[Any]:
    """Return all copies, the newest first: rows of `INDEX`, with `made_at` in milliseconds."""
    table_path = f"{open_table.layout.anchors(open_table.name)}/index"
    if not open_table.lake.exists(table_path):
        return []
    rows = open_table.lake.read(table_path).orderBy(F.desc("tick"))
    return rows.withColumn("made_at", F.unix_millis("made_at")).collect()


def _delta_writer(rows: DataFrame) -> DataFrameWriter:
    # Columns may have been added since the last copy.
    return rows.write.format("delta").option("mergeSchema", "true")


def _read_copy(open_table: OpenTable, tick: int) -> Anchor:
    def read_rows(name: str) -> DataFrame:
        frame = open_table.lake.read(f"{open_table.layout.anchors(open_table.name)}/{name}")
        return frame.where(F.col("_anchor") == tick).drop("_anchor")

    return Anchor(tick, read_rows("kept"), read_rows("seen") if is_final(open_table.table) else None)


def _last_tick_before(open_table: OpenTable, cut: Cut) -> int:
    """Return the last tick up to which no record of the table's topics lies at or after the cut's offsets."""
    bronze_rows = bronze.between_ticks(
        bronze.read_stream_records(open_table.lake, open_table.table.stream), 0, cut.tick
    )
    first_tick = bronze_rows.where(~cut_filter.is_before_offsets(cut)).agg(F.min("tick")).first()
    return cut.tick if first_tick is None or first_tick[0] is None else int(first_tick[0]) - 1


def _commits_back(
    open_table: OpenTable, last_tick: int, event_ms: int | None = None
) -> Iterator[tuple[Commit, int | None]]:
    """Yield the table's commits up to a tick, each with the largest event time up to it, the newest first.

    event_ms: commits that hold a later event time may be left out.
    """
    table_place = open_table.state
    if not open_table.lake.exists(table_place.path):
        return

    def is_past(metadata: CommitMetadata) -> bool | None:
        if metadata.tick > last_tick:
            return True
        if event_ms is None:
            return False
        if not isinstance(metadata.content, TableCommit):
            return None
        through = metadata.content.times.through
        return through is not None and through > event_ms

    waiting_commits: list[Commit] = []  # commits without records: the commit before them has the event time
    for commit in walk_own_commits(commit_log_of(open_table.spark, table_place.path), table_place.name, is_past):
        waiting_commits.append(commit)
        if commit.batch is not None:
            through = commit.batch.times.through
            yield from ((item, through) for item in waiting_commits if item.tick <= last_tick)
            waiting_commits = []
    yield from ((item, None) for item in waiting_commits if item.tick <= last_tick)


def _open_version(
    open_table: OpenTable,
    commit: Commit,
    first_untrusted: Mapping[str, int] | None = None,
    *,
    with_others: bool = True,
) -> Anchor | None:
    """Open a version of the state, with that of the visible table; None if either is missing, or not trusted.

    first_untrusted: by path, the first version of a table that can't be trusted. with_others: with what others
    committed after us, such as OPTIMIZE or somebody's UPDATE, since readers saw that at the tick. Raises
    AnalysisException if Delta no longer has the version.
    """
    table_place, tick = open_table.state, commit.tick
    visible_place = open_table.visible
    untrusted = first_untrusted or {}
    last_version = _last_trusted(commit, untrusted.get(table_place.path)) if with_others else commit.version
    if last_version is None:
        return None
    state_rows = open_table.lake.read_past(table_place.path, last_version)
    if not is_final(open_table.table):
        return Anchor(tick, state_rows)
    # The visible table is committed after the state: its commit may not be there yet.
    visible_commits = [
        visible_commit
        for visible_commit in open_table.lake.commits(visible_place, tick, tick)
        if visible_commit.tick == tick
    ]
    if not visible_commits:
        return None
    last_commit = visible_commits[-1]
    last_version = _last_trusted(last_commit, untrusted.get(visible_place.path)) if with_others else last_commit.version
    return (
        None
        if last_version is None
        else Anchor(tick, state_rows, open_table.lake.read_past(visible_place.path, last_version))
    )


def _last_trusted(commit: Commit, first_untrusted: int | None) -> int | None:
    """Return the last version that is the table at a commit; None if the commit itself can't be trusted."""
    if first_untrusted is None:
        return commit.last
    return min(commit.last, first_untrusted - 1) if commit.version < first_untrusted else None
