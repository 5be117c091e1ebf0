"""Upkeep of a lake's tables by their writers, between two batches: few files, old versions removed, anchors made.

    anchors   when the last one is older than the policy says: a copy of what the table keeps now. Old ones are thinned
    OPTIMIZE  when small files have accumulated: a keyed table is laid out by key, others are compacted
    VACUUM    files of no version within the retention time; files that a changelog still needs go later

Each step is one of Delta's own commits or deletions, and complete in itself: after a kill the next upkeep goes on.
Nothing here carries a tick; a stream that reads a table sees none of it (`dataChange` is false).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from lakehouse.duration import duration_ms
from lakehouse.lake.place import TablePlace
from lakehouse.plan.app import App
from lakehouse.semantics.epoch import EVER
from lakehouse.settings.config import Upkeep
from lakehouse.spark.bronze.compaction import cluster
from lakehouse.spark.delta_log import snapshot
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.past import anchors
from lakehouse.spark.table import files
from lakehouse.spark.table.files import DAY_MS, HOUR_MS

REASON = "upkeep"
FOREVER = "forever"


@dataclass(frozen=True, slots=True)
class Policy:
    """What upkeep does; durations in milliseconds, None for ever. vacuum: False leaves files where they are."""

    optimize_files: int
    keep_versions: int
    anchors_every: int
    keep_anchors: int | None
    vacuum: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The steps done, or to be done, on one Delta table, by its name below the lake: silver/totals.

    files: of the newest version. bytes: of the folder, with older versions and the log. kept: why files are kept.
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


def policy(settings: Upkeep, *, vacuum: bool = True, dry_run: bool = False) -> Policy:
    """Return the policy from the settings."""
    kept = settings.keep_anchors
    return Policy(
        settings.optimize_files,
        duration_ms(settings.keep_versions, "keep_versions"),
        duration_ms(settings.anchors_every, "anchors_every"),
        None if kept == FOREVER else duration_ms(kept, "keep_anchors"),
        vacuum,
        dry_run,
    )


def upkeep(
    opened: OpenTable,
    policy: Policy,
    now: datetime,
    published: Mapping[str, int] | None = None,
) -> list[Done]:
    """Do the upkeep of one table, and of what belongs to it, under the lease of its writer.

    published: for each topic that its net changelog is published to, the last tick in the topic.
    """
    if not opened.exists:
        return []
    opened, table = opened.own_session(), opened.table
    visible, state = opened.visible, opened.state
    now_ms = int(now.timestamp() * 1000)
    anchor, thinned = _anchors(opened, policy, now_ms)
    needed: dict[str, dict[str, int]] = {visible.path: {}}
    for topic, tick in (published or {}).items():
        needed[visible.path][f"topic {topic} has the changes up to tick {tick}"] = tick
    if state != visible:
        shown = opened.lake.progress(visible).tick
        needed[state.path] = {f"the visible table is at tick {shown}": shown}
    # Windows that end together begin together: ordering by the end, too, would only halve the use of the other columns.
    columns = [name for name in table.key if name != "window_end"]
    done = []
    for place in opened.places:
        keep_ms, why = _kept(opened.lake, place, policy, needed[place.path], now_ms)
        done.append(_one(opened.lake, place.path, policy, keep_ms, why, columns))
    beside = [opened.late, *(f"{opened.layout.anchors(table.name)}/{name}" for name in ("kept", "seen", "index"))]
    done += _plain(opened.lake, beside, policy)
    done[0] = replace(done[0], anchor=anchor, thinned=tuple(thinned))
    return done


def upkeep_quarantine(lake: OpenLake, app: App, policy: Policy) -> list[Done]:
    """Do the upkeep of the quarantines of an application's streams, under their leases."""
    paths = [lake.layout.quarantine(source.name) for source in app.sources]
    return _plain(lake.own_session(), paths, policy)


def upkeep_bronze(lake: OpenLake, own: Iterable[str], policy: Policy) -> list[Done]:
    """Do the upkeep of bronze and its writer's other tables, under its lease. own: topics with a table of their own."""
    lake = lake.own_session()

    def by_key(topics: list[str] | None) -> Callable[[SparkSession, str], object]:
        return lambda session, path: cluster(lake, topics)

    # A tick may end up in fewer files than it came in: silver selects rows by their tick, whatever file they are in.
    done = _plain(lake, [lake.layout.records], policy, by_key(None))
    for topic in own:
        done += _plain(lake, [lake.layout.own_records(topic)], policy, by_key([topic]))
    return done + _plain(lake, [lake.layout.gaps, lake.layout.interventions], policy)


def _plain(
    lake: OpenLake,
    paths: Iterable[str],
    policy: Policy,
    compact: Callable[[SparkSession, str], object] = files.compact,
) -> list[Done]:
    """Do the upkeep of tables without a key, if they exist."""
    why = (_versions_of(policy.keep_versions),)
    there = [path for path in paths if lake.exists(path)]
    return [_one(lake, path, policy, policy.keep_versions, why, None, compact) for path in there]


def _one(
    lake: OpenLake,
    path: str,
    policy: Policy,
    keep_ms: int,
    why: tuple[str, ...],
    columns: list[str] | None,
    compact: Callable[[SparkSession, str], object] = files.compact,
) -> Done:
    """Do the upkeep of one Delta table. columns: what a keyed one is laid out by."""
    keyed = columns is not None
    bytes_before = files.on_disk(lake.spark, path)
    before = files.files(lake.spark, path, keyed=keyed, enough=policy.optimize_files)
    # A keyed table is rewritten as a whole: once each time it has grown by a quarter.
    large = (before.count - before.small) // 4 if keyed else 0
    wanted = before.small > max(policy.optimize_files, large)
    if not policy.dry_run:
        if keyed or policy.vacuum:
            files.retain(lake.spark, path, keep_ms)
        if wanted and columns is not None:
            files.lay_out(lake.spark, path, before, columns)
        elif wanted:
            compact(lake.spark, path)
        if policy.vacuum:
            files.vacuum(lake.spark, path, keep_ms)
    changed = wanted and not policy.dry_run
    after = files.files(lake.spark, path, keyed=keyed, enough=EVER) if changed else before
    name = path.removeprefix(f"{lake.layout.tables}/").removeprefix(f"{lake.layout.root}/")
    return Done(name, before.count, after.count, bytes_before, files.on_disk(lake.spark, path), wanted, why)


def _kept(
    lake: OpenLake, place: TablePlace, policy: Policy, needed: Mapping[str, int], now_ms: int
) -> tuple[int, tuple[str, ...]]:
    """How long a keyed table's versions are kept, in milliseconds, and why: longer where a reader still needs them.

    needed: by reader, the tick after which it still has to read commits.
    """
    keep_ms, why = policy.keep_versions, [_versions_of(policy.keep_versions)]
    for reason, tick in needed.items():
        if lake.progress(place).tick <= tick:
            continue
        first = next(c for c in lake.commits(place, tick) if c.tick > tick)
        # Whole days: Delta is told by a commit, and this way there is at most one such commit a day.
        age_ms = -(-(now_ms - first.time_ms + HOUR_MS) // DAY_MS) * DAY_MS
        if age_ms > keep_ms:
            keep_ms = age_ms
            why.append(f"{_versions_of(age_ms)}, since {reason}")
    return keep_ms, tuple(why)


def _versions_of(ms: int) -> str:
    return f"versions of {ms / DAY_MS:g} days" if ms >= DAY_MS else f"versions of {ms / 1000:g} seconds"


def _anchors(opened: OpenTable, policy: Policy, now_ms: int) -> tuple[int | None, list[int]]:
    """Make an anchor if one is due, and remove surplus ones; return their ticks."""
    place = opened.state
    copies = anchors.index(opened)
    tick = opened.progress.tick
    anchor = None
    if not copies and opened.skip is not None:
        # What a restored table began with is in no bronze: once Delta's versions are gone, only an anchor has it.
        anchor = opened.lake.commits(place)[0].tick
    elif not copies or copies[0]["tick"] < tick:
        created = snapshot(opened.spark, place.path).metadata().createdTime()
        last_ms = copies[0]["made_at"] if copies else int(created.get())
        anchor = tick if now_ms - last_ms >= policy.anchors_every else None
    made = [(row["tick"], row["made_at"]) for row in copies if row["reason"] == REASON]
    thinned = surplus(made, policy.keep_anchors, now_ms)
    if not policy.dry_run:
        if anchor is not None:
            anchor = anchors.keep(opened, anchor, REASON)
        anchors.drop(opened, thinned)
    return anchor, thinned


def surplus(made: list[tuple[int, int]], keep_ms: int | None, now_ms: int) -> list[int]:
    """Return the ticks of the anchors to remove, from pairs (tick, creation time): all are kept for `keep_ms`.

    Of older ones the first in each span of `keep_ms` stays, then in each two, four, eight, ... spans as their age
    doubles. So a read of the past folds no more than came since then, and a hundred years have at most twenty of them.
    """
    if keep_ms is None:
        return []
    gone, taken = [], set()
    for tick, made_ms in sorted(made):
        period = made_ms // keep_ms
        # How often the age has doubled. An anchor that is kept at one age was kept at all younger ones.
        doubled = max(now_ms // keep_ms - period, 1).bit_length() - 1
        if now_ms - made_ms > keep_ms and (doubled, period >> doubled) in taken:
            gone.append(tick)
        taken.add((doubled, period >> doubled))
    return gone
