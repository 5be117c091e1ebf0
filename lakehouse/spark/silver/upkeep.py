"""Upkeep of a lake's tables by their writers, between two batches: few files, old versions removed, anchors made.

    anchors   when the last one is older than the policy says: a copy of the rows that the table keeps. Old ones are
              thinned
    OPTIMIZE  when small files have accumulated: a keyed table is laid out by key, others are compacted
    VACUUM    of files in no version within the retention time; files that a changelog still needs go later

Each step is one of Delta's own commits or deletions, and complete in itself: after a kill the next upkeep goes on.
These commits carry no tick; a stream that reads a table ignores them (`dataChange` is false).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from lakehouse.duration import duration_ms
from lakehouse.lake.place import TablePlace
from lakehouse.plan.origin import Source
from lakehouse.semantics.commit_number import EVER, NO_TICK
from lakehouse.settings.config import Upkeep
from lakehouse.spark.bronze.compaction import cluster_files
from lakehouse.spark.history import anchors
from lakehouse.spark.jvm.delta_log import newest_snapshot
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.table import files
from lakehouse.spark.table.files import DAY_MS, HOUR_MS, FileCounts

REASON = "upkeep"
FOREVER = "forever"


@dataclass(frozen=True, slots=True)
class UpkeepPolicy:
    """The settings of upkeep; durations in milliseconds, None for ever. vacuum: False leaves old files in place."""

    optimize_files: int
    keep_versions: int
    anchors_every: int
    keep_anchors: int | None
    vacuum: bool = True


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """The steps done, or to be done, on one Delta table, by its name below the lake: silver/totals.

    files_before, files_after: of the newest version. bytes_before, bytes_after: of the folder, with older versions and
    the log. kept: why files are kept.
    """

    name: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    optimized: bool
    kept: tuple[str, ...]
    anchor: int | None = None
    thinned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FilesStage:
    """The upkeep of the files of one Delta table, by its path and by its name below the lake.

    needs_rewrite: small files have accumulated. reasons: why versions are kept for keep_ms. layout_columns: those that
    lay out a keyed table; None without a key: then `compact` rewrites it.
    """

    path: str
    name: str
    files: FileCounts
    bytes: int
    needs_rewrite: bool
    keep_ms: int
    reasons: tuple[str, ...]
    layout_columns: tuple[str, ...] | None
    compact: Callable[[SparkSession, str], object]

    def make_result(self, file_count: int, byte_count: int) -> UpkeepResult:
        """Return the result, with the numbers of files and bytes after it."""
        return UpkeepResult(
            self.name, self.files.count, file_count, self.bytes, byte_count, self.needs_rewrite, self.reasons
        )


@dataclass(frozen=True, slots=True)
class UpkeepPlan:
    """The upkeep of a table and of what belongs to it: the anchor to make, those to remove, then the files."""

    stages: tuple[FilesStage, ...]
    anchor: int | None = None
    thinned: tuple[int, ...] = ()

    def expected_results(self) -> list[UpkeepResult]:
        """Return what would be done; the files after it are not known."""
        return self.with_anchors([stage.make_result(stage.files.count, stage.bytes) for stage in self.stages])

    def with_anchors(self, results: list[UpkeepResult]) -> list[UpkeepResult]:
        """Return the results with the anchors, which stand in the first of them."""
        return [replace(results[0], anchor=self.anchor, thinned=self.thinned), *results[1:]] if results else []


def read_policy(settings: Upkeep, *, vacuum: bool = True) -> UpkeepPolicy:
    """Return the policy from the settings."""
    keep_anchors = settings.keep_anchors
    return UpkeepPolicy(
        settings.optimize_files,
        duration_ms(settings.keep_versions, "keep_versions"),
        duration_ms(settings.anchors_every, "anchors_every"),
        None if keep_anchors == FOREVER else duration_ms(keep_anchors, "keep_anchors"),
        vacuum,
    )


def upkeep_table(
    open_table: OpenTable,
    policy: UpkeepPolicy,
    now: datetime,
    published: Mapping[str, int] | None = None,
) -> list[UpkeepResult]:
    """Do the upkeep of one table, and of what belongs to it, under the lease of its writer; see `plan_table`."""
    open_table = open_table.own_session()
    plan = plan_table(open_table, policy, now, published)
    if plan.anchor is not None:
        plan = replace(plan, anchor=anchors.keep_anchor(open_table, plan.anchor, REASON))
    anchors.drop_anchors(open_table, list(plan.thinned))
    return plan.with_anchors(_upkeep_files(open_table.lake, plan, policy))


def plan_table(
    open_table: OpenTable,
    policy: UpkeepPolicy,
    now: datetime,
    published: Mapping[str, int] | None = None,
) -> UpkeepPlan:
    """Plan the upkeep of one table, and of what belongs to it.

    published: for each topic that its net changelog is published to, the last tick in the topic.
    """
    if not open_table.table_exists():
        return UpkeepPlan(())
    table = open_table.table
    visible_place, state_place = open_table.visible, open_table.state
    now_ms = int(now.timestamp() * 1000)
    needed_ticks: dict[str, dict[str, int]] = {visible_place.path: {}}
    for topic, tick in (published or {}).items():
        needed_ticks[visible_place.path][f"topic {topic} has the changes up to tick {tick}"] = tick
    if state_place != visible_place:
        visible_tick = open_table.lake.progress(visible_place).tick
        needed_ticks[state_place.path] = {f"the visible table is at tick {visible_tick}": visible_tick}
    # Windows that end together begin together: ordering by the end, too, would only halve the effect of other columns.
    layout_columns = tuple(name for name in table.key if name != "window_end")
    stages = []
    for table_place in open_table.places:
        keep_ms, reasons = _needed_retention(
            open_table.lake, table_place, policy, needed_ticks[table_place.path], now_ms
        )
        stages.append(_plan_files(open_table.lake, table_place.path, policy, keep_ms, reasons, layout_columns))
    other_paths = [
        open_table.late,
        *(f"{open_table.layout.anchors(table.name)}/{name}" for name in ("kept", "seen", "index")),
    ]
    stages += _plan_unkeyed(open_table.lake, other_paths, policy)
    return UpkeepPlan(tuple(stages), *_plan_anchors(open_table, policy, now_ms))


def upkeep_quarantine(lake: OpenLake, sources: Iterable[Source], policy: UpkeepPolicy) -> list[UpkeepResult]:
    """Do the upkeep of the quarantines of streams, under their leases, which the caller holds."""
    lake = lake.own_session()
    return _upkeep_files(lake, plan_quarantine(lake, sources, policy), policy)


def plan_quarantine(lake: OpenLake, sources: Iterable[Source], policy: UpkeepPolicy) -> UpkeepPlan:
    """Plan the upkeep of the quarantines of streams."""
    paths = [lake.layout.quarantine(source.name) for source in sources]
    return UpkeepPlan(tuple(_plan_unkeyed(lake, paths, policy)))


def upkeep_bronze(lake: OpenLake, own_topics: Iterable[str], policy: UpkeepPolicy) -> list[UpkeepResult]:
    """Do the upkeep of bronze and its writer's other tables, under its lease; see `plan_bronze`."""
    lake = lake.own_session()
    return _upkeep_files(lake, plan_bronze(lake, own_topics, policy), policy)


def plan_bronze(lake: OpenLake, own_topics: Iterable[str], policy: UpkeepPolicy) -> UpkeepPlan:
    """Plan the upkeep of bronze and its writer's other tables. own_topics: those with a table of their own."""

    def cluster_by_key(topics: list[str] | None) -> Callable[[SparkSession, str], object]:
        return lambda session, table_path: cluster_files(lake, topics)

    # A tick may end up in fewer files than it came in: silver selects rows by their tick, whatever file they are in.
    stages = _plan_unkeyed(lake, [lake.layout.records], policy, cluster_by_key(None))
    for topic in own_topics:
        stages += _plan_unkeyed(lake, [lake.layout.own_records(topic)], policy, cluster_by_key([topic]))
    return UpkeepPlan((*stages, *_plan_unkeyed(lake, [lake.layout.gaps, lake.layout.interventions], policy)))


def _plan_unkeyed(
    lake: OpenLake,
    paths: Iterable[str],
    policy: UpkeepPolicy,
    compact: Callable[[SparkSession, str], object] = files.compact_files,
) -> list[FilesStage]:
    """Plan the upkeep of tables without a key, if they exist."""
    reasons = (_describe_versions(policy.keep_versions),)
    return [
        _plan_files(lake, table_path, policy, policy.keep_versions, reasons, None, compact)
        for table_path in paths
        if lake.exists(table_path)
    ]


def _plan_files(
    lake: OpenLake,
    table_path: str,
    policy: UpkeepPolicy,
    keep_ms: int,
    reasons: tuple[str, ...],
    layout_columns: tuple[str, ...] | None,
    compact: Callable[[SparkSession, str], object] = files.compact_files,
) -> FilesStage:
    is_keyed = layout_columns is not None
    byte_count = files.bytes_on_disk(lake.spark, table_path)
    file_counts = files.count_files(lake.spark, table_path, keyed=is_keyed, enough=policy.optimize_files)
    # A keyed table is rewritten as a whole: once each time it has grown by a quarter.
    growth_limit = (file_counts.count - file_counts.small) // 4 if is_keyed else 0
    needs_rewrite = file_counts.small > max(policy.optimize_files, growth_limit)
    name = table_path.removeprefix(f"{lake.layout.tables}/").removeprefix(f"{lake.layout.root}/")
    return FilesStage(
        table_path, name, file_counts, byte_count, needs_rewrite, keep_ms, reasons, layout_columns, compact
    )


def _upkeep_files(lake: OpenLake, plan: UpkeepPlan, policy: UpkeepPolicy) -> list[UpkeepResult]:
    """Carry out the stages of a plan."""
    spark, results = lake.spark, []
    for stage in plan.stages:
        file_count = stage.files.count
        if stage.layout_columns is not None or policy.vacuum:
            files.retain_files(spark, stage.path, stage.keep_ms)
        if stage.needs_rewrite:
            if stage.layout_columns is not None:
                files.lay_out(spark, stage.path, stage.files, stage.layout_columns)
            else:
                stage.compact(spark, stage.path)
            is_keyed = stage.layout_columns is not None
            file_count = files.count_files(spark, stage.path, keyed=is_keyed, enough=EVER).count
        if policy.vacuum:
            files.vacuum_files(spark, stage.path, stage.keep_ms)
        results.append(stage.make_result(file_count, files.bytes_on_disk(spark, stage.path)))
    return results


def _needed_retention(
    lake: OpenLake, table_place: TablePlace, policy: UpkeepPolicy, needed_ticks: Mapping[str, int], now_ms: int
) -> tuple[int, tuple[str, ...]]:
    """Return how long to keep a keyed table's versions, in milliseconds, and why: longer if a reader still needs them.

    needed_ticks: by reader, the tick after which it still has to read commits.
    """
    keep_ms, reasons = policy.keep_versions, [_describe_versions(policy.keep_versions)]
    for reason, tick in needed_ticks.items():
        if lake.progress(table_place).tick <= tick:
            continue
        first_commit = next(commit for commit in lake.commits(table_place, tick) if commit.tick > tick)
        # Whole days: a change of the retention is a commit, and this way there is at most one such commit a day.
        age_ms = -(-(now_ms - first_commit.time_ms + HOUR_MS) // DAY_MS) * DAY_MS
        if age_ms > keep_ms:
            keep_ms = age_ms
            reasons.append(f"{_describe_versions(age_ms)}, since {reason}")
    return keep_ms, tuple(reasons)


def _describe_versions(ms: int) -> str:
    return f"versions of {ms / DAY_MS:g} days" if ms >= DAY_MS else f"versions of {ms / 1000:g} seconds"


def _plan_anchors(open_table: OpenTable, policy: UpkeepPolicy, now_ms: int) -> tuple[int | None, tuple[int, ...]]:
    """Return the tick of the anchor that is due, None if none is, and the ticks of surplus ones."""
    copies = anchors.read_index(open_table)
    applied_tick = open_table.read_progress().tick
    anchor_tick = None
    lacks_first = open_table.read_skipped_offsets() is not None and all(row["tick"] > NO_TICK for row in copies)
    if lacks_first and anchors.has_first_version(open_table):
        # Bronze lacks the rows with which a restored table began: after Delta's versions only an anchor has them. There
        # may be a later anchor already, made before a revert or a backfill.
        anchor_tick = NO_TICK
    elif not copies or copies[0]["tick"] < applied_tick:
        created_ms = newest_snapshot(open_table.spark, open_table.state.path).created_ms
        last_ms = copies[0]["made_at"] if copies else created_ms
        anchor_tick = applied_tick if now_ms - last_ms >= policy.anchors_every else None
    made_anchors = [(row["tick"], row["made_at"]) for row in copies if row["reason"] == REASON]
    return anchor_tick, tuple(surplus_anchors(made_anchors, policy.keep_anchors, now_ms))


def surplus_anchors(anchor_times: list[tuple[int, int]], keep_ms: int | None, now_ms: int) -> list[int]:
    """Return the ticks of the anchors to remove, from pairs (tick, creation time): all are kept for `keep_ms`.

    Of older ones the first in each span of `keep_ms` stays, then in each two, four, eight, ... spans as their age
    doubles. So a read of the past folds no more than the records since then, and a hundred years have at most twenty
    anchors.
    """
    if keep_ms is None:
        return []
    surplus_ticks, taken_periods = [], set()
    for tick, made_ms in sorted(anchor_times):
        period = made_ms // keep_ms
        # How often the age has doubled. An anchor that is kept at one age was kept at all younger ones.
        doubled = max(now_ms // keep_ms - period, 1).bit_length() - 1
        if now_ms - made_ms > keep_ms and (doubled, period >> doubled) in taken_periods:
            surplus_ticks.append(tick)
        taken_periods.add((doubled, period >> doubled))
    return surplus_ticks
