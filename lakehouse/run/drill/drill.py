"""Recovery drills: a copy of a table is damaged, the damage is found, and the table is restored in each of three ways.

The live table is only read. A drill's folder, <lake>/beside/drill-<table>, holds small lakes, each with a copy of the
table, or an empty one to restore into; their bronze is the live one, through a link, and nothing there writes bronze.

    version     the newest version that is whole and not under suspicion, then the later records of bronze
    changelog   what was published to a topic, alone
    bronze      records and interventions, from the first one, by the table's own writer
    writer      the writer starts again: what it recovers from by itself
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.drill.logbook import Case, Drill, Restored, remember
from lakehouse.run.repair.restore import changelog
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.audit import damage
from lakehouse.spark.audit.inspection import Finding, inspect
from lakehouse.spark.operators.content import content, difference
from lakehouse.spark.past import anchors, reading
from lakehouse.spark.past.moments import Past
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.table import tables
from lakehouse.spark.table.travel import read_version
from lakehouse.spark.transaction import exists, read_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT = "lost checkpoint"
DAMAGES = ("lost file", "broken log entry", "missing log entry", "flipped bit", "wrong merge", CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Published:
    """Where the changelog was published: the topic, and Kafka's servers and options."""

    topic: str
    servers: str
    options: Mapping[str, str]


def drill(
    spark: SparkSession,
    layout: Layout,
    table: Table,
    published: Published | None = None,
    damages: tuple[str, ...] = DAMAGES,
    listen: Callable[[Case], None] = lambda case: None,
) -> Drill:
    """Run a drill of a table, and add it to the history. `listen` is told of each damage when it is dealt with.

    Raises NotFound for a table that does not exist, ConfigError for a lake that is no local folder or a damage that is
    none of `DAMAGES`, LeaseHeld while another drill of the table runs.
    """
    if "://" in layout.root:
        raise ConfigError(f"drill: {layout.root} is not a local folder; a drill damages files, so it works only there.")
    if unknown := [name for name in damages if name not in DAMAGES]:
        raise ConfigError(f"drill: found damage {unknown[0]!r}; expected one of: {', '.join(DAMAGES)}.")
    if not exists(spark, layout.silver(table.name)):
        raise NotFound(f"table {table.name!r} does not exist in {layout.root}. Run its application first.")
    began, at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    folder = Path(layout.root, "beside", f"drill-{table.name}")
    with Lease(layout.lease(f"drill-{table.name}"), f"the drill of table {table.name!r}"):
        shutil.rmtree(folder, ignore_errors=True)  # of a drill that was killed
        try:
            running = _Running(spark, layout, table, folder, published)
            cases = []
            for name in damages:
                cases.append(running.case(name))
                listen(cases[-1])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        is_ok = all(case.ok for case in cases)
        truth, seconds = running.truth, round(time.monotonic() - began, 1)
        done = Drill(at, table.name, running.tick, truth.rows, truth.hash, seconds, is_ok, tuple(cases))
        remember(layout, done)
    return done


class _Running:
    """A drill under way: the untouched copy, what it holds, and a new small lake for each thing that is tried."""

    def __init__(
        self, spark: SparkSession, layout: Layout, table: Table, folder: Path, published: Published | None
    ) -> None:
        self._spark, self._live, self._table, self._folder = spark, layout, table, folder
        self._published = published
        self._made = 0
        self._alone = App((table,), (), table.stream.sources)
        self._is_restored = tables.skipped_offsets(spark, layout, table) is not None
        self._copy = self._lake()
        # What is seen comes first: the live writer commits it last, so it is never ahead of what is kept.
        for path in (Layout.silver, Layout.state, Layout.late, Layout.anchors):
            _copy_table(Path(path(layout, table.name)), Path(path(self._copy, table.name)))
        self.tick = read_progress(spark, self._copy.silver(table.name), table.name).tick
        self._expected = reading.read(spark, layout, table, AtTick(self.tick))
        self.truth = content(self._expected)
        self._versions = int(damage.entries(self._copy.silver(table.name))[-1].stem) + 1

    def case(self, name: str) -> Case:
        """Damage a fresh copy, find the damage, restore."""
        if name == CHECKPOINT:
            return self._lost_checkpoint()
        lake = self._fresh_copy()
        place = tables.visible(lake, self._table)
        work: dict[str, Callable[[], str | None]] = {
            "lost file": lambda: damage.lost_file(place.path),
            "broken log entry": lambda: damage.broken_entry(place.path),
            "missing log entry": lambda: damage.missing_entry(place.path),
            "flipped bit": lambda: damage.flipped_bit(place.path),
            "wrong merge": lambda: damage.wrong_merge(self._spark, place.path, self._table),
        }
        done = work[name]()
        if done is None:
            nothing = Restored("version", 0.0, equal=True, lost=0, reason="the table has nothing to damage this way")
            return Case(name, "nothing", "nothing was damaged", 0.0, (nothing,))
        began = time.monotonic()
        finding = inspect(self._spark, place, self.truth, self._versions)
        seconds = round(time.monotonic() - began, 2)
        ways = (
            self._timed("version", lambda into: self._from_version(lake, into, finding)),
            self._timed("changelog", self._from_changelog),
            self._timed("bronze", self._from_bronze),
        )
        return Case(name, done, finding.what if finding is not None else None, seconds, ways)

    def _timed(self, way: str, work: Callable[[Layout], DataFrame]) -> Restored:
        """Restore into an empty lake; compare."""
        into, began = self._lake(), time.monotonic()
        try:
            made = work(into)
            found = content(made)
        except LakehouseError as error:
            return Restored(way, round(time.monotonic() - began, 2), reason=str(error))
        seconds = round(time.monotonic() - began, 2)
        if found == self.truth:
            return Restored(way, seconds, found.rows, True, 0)
        lost = difference(self._table.key, self._expected, made).keys
        return Restored(way, seconds, found.rows, False, lost)

    def _from_version(self, damaged: Layout, into: Layout, finding: Finding | None) -> DataFrame:
        # Moved to a new place: Spark remembers a log that it has seen, and must see this one as it is now.
        lake, name = self._lake(), self._table.name
        for path in (Layout.silver, Layout.state):
            if (there := Path(path(damaged, name))).exists():
                Path(path(lake, name)).parent.mkdir(parents=True)
                there.rename(path(lake, name))
        seen = tables.visible(lake, self._table).path
        before = {} if finding is None or finding.before is None else {seen: finding.before}
        for entry in damage.entries(seen):
            if int(entry.stem) >= before.get(seen, int(entry.stem) + 1):
                for file in entry.parent.glob(f"{entry.stem}*"):
                    file.unlink()
        found = anchors.salvage(self._spark, lake, self._table, into, before)
        if found is None:
            raise NotFound("no version is intact: use the changelog, or bronze")
        if found < self.tick and self._is_restored:
            raise NotFound(
                f"the last whole version is tick {found}, and bronze does not tell what a restored table lacks"
            )
        return self._written(into, Past(self._spark, into, self._table).seen(Cut(self.tick)))

    def _from_changelog(self, into: Layout) -> DataFrame:
        if self._published is None:
            raise NotFound("no topic of its changelog was given")
        of = self._published
        told = (of.servers, of.options, self._table, of.topic, self.tick)
        with changelog(self._spark, self._live, *told) as made:
            return self._written(into, made)

    def _from_bronze(self, into: Layout) -> DataFrame:
        if self._is_restored:
            raise NotFound("the table was restored from a topic: this lake's bronze does not have what came before")
        with Silver(self._spark, into, self._alone, lambda tick, records: None) as silver:
            silver.catch_up(self.tick)
        return read_version(self._spark, into.silver(self._table.name))

    def _lost_checkpoint(self) -> Case:
        """The query is started, its checkpoint removed, and it is started again: no row may come twice."""
        lake = self._fresh_copy()
        self._query(lake)
        control = Path(lake.root, "control")
        shutil.rmtree(control)

        def again(_: Layout) -> DataFrame:
            self._query(lake)
            return reading.read(self._spark, lake, self._table, AtTick(self.tick))

        found = "the writer: every start makes a fresh checkpoint, and goes on from the table's own tick"
        return Case(CHECKPOINT, "removed control/", found, 0.0, (self._timed("writer", again),))

    def _query(self, lake: Layout) -> None:
        with Silver(self._spark, lake, self._alone, lambda tick, records: None) as silver:
            query = silver.start(available_now=True)
            try:
                query.awaitTermination()
            finally:
                silver.check(query)

    def _written(self, into: Layout, made: DataFrame) -> DataFrame:
        path = into.silver(self._table.name)
        made.write.format("delta").save(path)
        return read_version(self._spark, path)

    def _fresh_copy(self) -> Layout:
        lake = self._lake()
        for name in ("silver", "state", "late", "anchors"):
            if (there := Path(self._copy.root, name)).exists():
                shutil.copytree(there, Path(lake.root, name))
        return lake

    def _lake(self) -> Layout:
        """An empty lake, whose bronze, interventions and builds are the live ones."""
        self._made += 1
        root = self._folder / str(self._made)
        root.mkdir(parents=True)
        for name in ("bronze", "interventions"):
            if (live := Path(self._live.root, name).resolve()).exists():
                (root / name).symlink_to(live, target_is_directory=True)
        return Layout(str(root))


def _copy_table(live: Path, copy: Path) -> None:
    """Copy a table while it is written to: its log first, so the copy has every file that its log names."""
    for log in sorted(live.rglob("_delta_log")):
        shutil.copytree(log, copy / log.relative_to(live), copy_function=_copy_file)
    if live.exists():
        skip = shutil.ignore_patterns("_delta_log")
        shutil.copytree(live, copy, dirs_exist_ok=True, ignore=skip, copy_function=_copy_file)


def _copy_file(live: str, copy: str) -> None:
    # A file of a commit under way, or a removed one, may be gone: the copied log does not name it.
    with suppress(FileNotFoundError):
        shutil.copyfile(live, copy)
