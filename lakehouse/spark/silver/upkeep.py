"""Upkeep of a lake's tables by their writers, between two batches: few files, old versions removed, anchors made.

    anchors   when the last one is older than the policy says: a copy of what the table keeps now. Old ones are thinned
    OPTIMIZE  when small files have come together: a keyed table is laid out by key, others are compacted
    VACUUM    files that no version of the time which is kept has; later what a changelog still has to tell

Each step is a commit, or a deletion, of Delta's own and whole by itself: after a kill the next upkeep goes on. Nothing
here carries a tick; a stream that reads a table sees none of it (`dataChange` is false).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.duration import milliseconds
from lakehouse.plan.table import Table
from lakehouse.settings.config import Upkeep
from lakehouse.spark.bronze.bronze import EVER
from lakehouse.spark.bronze.compaction import cluster
from lakehouse.spark.past import anchors
from lakehouse.spark.table import files, tables, travel
from lakehouse.spark.table.files import DAY_MS, HOUR_MS
from lakehouse.spark.table.tables import Place
from lakehouse.spark.transaction import exists, read_progress, snapshot

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
    """What was done, or would be, to one Delta table, by its name below the lake: silver/totals.

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
    """Return the policy that settings say."""
    kept = settings.keep_anchors
    return Policy(
        settings.optimize_files,
        milliseconds(settings.keep_versions, "keep_versions"),
        milliseconds(settings.anchors_every, "anchors_every"),
        None if kept == FOREVER else milliseconds(kept, "keep_anchors"),
        vacuum,
        dry_run,
    )


def upkeep(
    spark: SparkSession,
    layout: Layout,
    table: Table,
    policy: Policy,
    now: datetime,
    published: Mapping[str, int] | None = None,
) -> list[Done]:
    """Keep up one table, and what belongs to it, under the lease of its writer.

    published: of each topic that its net changelog is published to, the last tick that is there.
    """
    spark = spark.newSession()
    seen, kept = tables.visible(layout, table), tables.state(layout, table)
    if not exists(spark, seen.path):
        return []
    now_ms = int(now.timestamp() * 1000)
    anchor, thinned = _anchors(spark, layout, table, policy, now_ms)
    needed: dict[str, dict[str, int]] = {seen.path: {}}
    for topic, tick in (published or {}).items():
        needed[seen.path][f"topic {topic} has the changes up to tick {tick}"] = tick
    if table.has_state:
        shown = read_progress(spark, seen.path, seen.name).tick
        needed[kept.path] = {f"what people see is at tick {shown}": shown}
    # Windows that end together begin together: the end would only halve what the other columns are worth.
    columns = [name for name in table.key if name != "window_end"]
    done = []
    for place in dict.fromkeys((seen, kept)):
        keep_ms, why = _kept(spark, place, policy, needed[place.path], now_ms)
        done.append(_one(spark, layout, place.path, policy, keep_ms, why, columns))
    beside = [layout.late(table.name), *(f"{layout.anchors(table.name)}/{name}" for name in ("kept", "seen", "index"))]
    done += _plain(spark, layout, beside, policy)
    done[0] = replace(done[0], anchor=anchor, thinned=tuple(thinned))
    return done


def upkeep_quarantine(spark: SparkSession, layout: Layout, app: App, policy: Policy) -> list[Done]:
    """Keep up the quarantines of an application's streams, under their leases."""
    paths = [layout.quarantine(source.name) for source in app.sources]
    return _plain(spark.newSession(), layout, paths, policy)


def upkeep_bronze(spark: SparkSession, layout: Layout, own: Iterable[str], policy: Policy) -> list[Done]:
    """Keep up bronze and what else its writer writes, under its lease. own: topics with a table of their own."""
    spark = spark.newSession()

    def by_key(topics: list[str] | None) -> Callable[[SparkSession, str], object]:
        return lambda session, path: cluster(session, layout, topics)

    # A tick may lie in fewer files than it came in: silver selects rows by their tick, whatever file they are in.
    done = _plain(spark, layout, [layout.records], policy, by_key(None))
    for topic in own:
        done += _plain(spark, layout, [layout.own_records(topic)], policy, by_key([topic]))
    return done + _plain(spark, layout, [layout.gaps, layout.interventions], policy)


def _plain(
    spark: SparkSession,
    layout: Layout,
    paths: Iterable[str],
    policy: Policy,
    compact: Callable[[SparkSession, str], object] = files.compact,
) -> list[Done]:
    """Keep up tables without a key, those of them that exist."""
    why = (_versions_of(policy.keep_versions),)
    there = [path for path in paths if exists(spark, path)]
    return [_one(spark, layout, path, policy, policy.keep_versions, why, None, compact) for path in there]


def _one(
    spark: SparkSession,
    layout: Layout,
    path: str,
    policy: Policy,
    keep_ms: int,
    why: tuple[str, ...],
    columns: list[str] | None,
    compact: Callable[[SparkSession, str], object] = files.compact,
) -> Done:
    """Keep up one Delta table. columns: what a keyed one is laid out by."""
    keyed = columns is not None
    bytes_before = files.on_disk(spark, path)
    before = files.files(spark, path, keyed=keyed, enough=policy.optimize_files)
    # A keyed table is written anew as a whole: once for each quarter that it has grown.
    large = (before.count - before.small) // 4 if keyed else 0
    wanted = before.small > max(policy.optimize_files, large)
    if not policy.dry_run:
        if keyed or policy.vacuum:
            files.retain(spark, path, keep_ms)
        if wanted and columns is not None:
            files.lay_out(spark, path, before, columns)
        elif wanted:
            compact(spark, path)
        if policy.vacuum:
            files.vacuum(spark, path, keep_ms)
    changed = wanted and not policy.dry_run
    after = files.files(spark, path, keyed=keyed, enough=EVER) if changed else before
    name = path.removeprefix(f"{layout.tables}/").removeprefix(f"{layout.root}/")
    return Done(name, before.count, after.count, bytes_before, files.on_disk(spark, path), wanted, why)


def _kept(
    spark: SparkSession, place: Place, policy: Policy, needed: Mapping[str, int], now_ms: int
) -> tuple[int, tuple[str, ...]]:
    """How long a keyed table's versions are kept, in milliseconds, and why: longer where a reader still needs them.

    needed: by what needs it, the tick after which commits are still to be read.
    """
    keep_ms, why = policy.keep_versions, [_versions_of(policy.keep_versions)]
    for reason, tick in needed.items():
        if read_progress(spark, place.path, place.name).tick <= tick:
            continue
        first = next(c for c in travel.commits(spark, place.path, place.name, tick) if c.tick > tick)
        # Whole days: Delta is told how long, by a commit, and a day has one of these at the most.
        age_ms = -(-(now_ms - first.time_ms + HOUR_MS) // DAY_MS) * DAY_MS
        if age_ms > keep_ms:
            keep_ms = age_ms
            why.append(f"{_versions_of(age_ms)}, since {reason}")
    return keep_ms, tuple(why)


def _versions_of(ms: int) -> str:
    return f"versions of {ms / DAY_MS:g} days" if ms >= DAY_MS else f"versions of {ms / 1000:g} seconds"


def _anchors(
    spark: SparkSession, layout: Layout, table: Table, policy: Policy, now_ms: int
) -> tuple[int | None, list[int]]:
    """Make an anchor if one is due, and remove those that are too many; return their ticks."""
    place = tables.state(layout, table)
    copies = anchors.index(spark, layout, table)
    tick = read_progress(spark, place.path, place.name).tick
    anchor = None
    if not copies and tables.skipped_offsets(spark, layout, table) is not None:
        # What a restored table began from is in no bronze: without Delta's versions nothing else would have it.
        anchor = travel.commits(spark, place.path, place.name)[0].tick
    elif not copies or copies[0]["tick"] < tick:
        created = snapshot(spark, place.path).metadata().createdTime()
        last_ms = copies[0]["made_at"] if copies else int(created.get())
        anchor = tick if now_ms - last_ms >= policy.anchors_every else None
    made = [(row["tick"], row["made_at"]) for row in copies if row["reason"] == REASON]
    thinned = surplus(made, policy.keep_anchors, now_ms)
    if not policy.dry_run:
        if anchor is not None:
            anchor = anchors.keep(spark, layout, table, anchor, REASON)
        anchors.drop(spark, layout, table, thinned)
    return anchor, thinned


def surplus(made: list[tuple[int, int]], keep_ms: int | None, now_ms: int) -> list[int]:
    """Return the ticks of the anchors that go, of (tick, when it was made): all are kept for `keep_ms`.

    Of older ones the first of every such time stays, then of every two, four, eight, ... as their age doubles. So a
    read of the past folds no more than came since then, and a hundred years have no more than twenty of them.
    """
    if keep_ms is None:
        return []
    gone, taken = [], set()
    for tick, made_ms in sorted(made):
        period = made_ms // keep_ms
        # How often the age has doubled. What stays at one age was there at all younger ones.
        doubled = max(now_ms // keep_ms - period, 1).bit_length() - 1
        if now_ms - made_ms > keep_ms and (doubled, period >> doubled) in taken:
            gone.append(tick)
        taken.add((doubled, period >> doubled))
    return gone
