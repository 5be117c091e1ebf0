"""Recovery drills: a copy of a table is damaged, the damage is detected, and the table is restored in three ways.

The live table is only read. A drill's folder, <lake>/beside/drill-<table>, holds small lakes, each with a copy of the
table, or an empty one to restore into; their bronze, and the tables that the table reads, are the live ones, through
links, and nothing there writes them.

    version     the newest version that is whole and not suspect, then the later records of bronze
    changelog   the published topic alone
    bronze      records and interventions, from the first one, by the table's own writer
    writer      the writer starts again: for damage that it recovers from by itself
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.app import App
from lakehouse.run.drill.logbook import Drill, DrillCase, Recovery, remember
from lakehouse.run.repair.restore import Published, changelog
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.audit import damage
from lakehouse.spark.audit.inspection import Finding, inspect
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.content import content, difference
from lakehouse.spark.past import anchors, present, reading
from lakehouse.spark.past.moments import Past
from lakehouse.spark.silver.query import Silver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHECKPOINT = "lost checkpoint"
# The places of a table in a lake.
OF_TABLE = (Layout.silver, Layout.state, Layout.late, Layout.anchors)
DAMAGES = ("lost file", "broken log entry", "missing log entry", "flipped bit", "wrong merge", CHECKPOINT)


def drill(
    opened: OpenTable,
    published: Published | None = None,
    damages: tuple[str, ...] = DAMAGES,
    listen: Callable[[DrillCase], None] = lambda case: None,
) -> Drill:
    """Run a drill of a table, and add it to the history. `listen` is told the result of each damage.

    Raises NotFound for a table that does not exist, ConfigError for a lake that is not a local folder or a damage that
    is not in `DAMAGES`, LeaseHeld while another drill of the table runs.
    """
    table = opened.table
    if "://" in opened.layout.root:
        raise ConfigError(
            f"drill: {opened.layout.root} is not a local folder; a drill damages files, so it works only there."
        )
    if unknown := [name for name in damages if name not in DAMAGES]:
        raise ConfigError(f"drill: found damage {unknown[0]!r}; expected one of: {', '.join(DAMAGES)}.")
    if not opened.exists:
        raise NotFound(f"table {table.name!r} does not exist in {opened.layout.root}. Run its application first.")
    began, at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    folder = Path(opened.layout.root, "beside", f"drill-{table.name}")
    with Lease(opened.layout.lease(f"drill-{table.name}"), f"the drill of table {table.name!r}"):
        shutil.rmtree(folder, ignore_errors=True)  # left by a drill that was killed
        try:
            running = _Running(opened, folder, published)
            cases = []
            for name in damages:
                cases.append(running.case(name))
                listen(cases[-1])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        is_ok = all(case.ok for case in cases)
        truth, seconds = running.truth, round(time.monotonic() - began, 1)
        done = Drill(at, table.name, running.tick, truth.rows, truth.hash, seconds, is_ok, tuple(cases))
        remember(opened.layout, done)
    return done


class _Running:
    """A drill under way: the untouched copy, its content, and a new small lake for each attempt."""

    def __init__(self, opened: OpenTable, folder: Path, published: Published | None) -> None:
        self._opened, self._table, self._folder = opened, opened.table, folder
        self._published = published
        self._made = 0
        self._alone = App((opened.table,), (), opened.table.stream.sources)
        self._is_restored = opened.skip is not None
        self._copy = self._lake()
        # The visible table comes first: the live writer commits it last, so it is never ahead of the state.
        for path in OF_TABLE:
            _copy_table(Path(path(opened.layout, opened.name)), Path(path(self._copy.layout, opened.name)))
        self.tick = self._copy.lake.progress(self._copy.visible).tick
        self._expected = reading.read(opened, AtTick(self.tick))
        self.truth = content(self._expected)
        self._versions = int(damage.entries(self._copy.visible.path)[-1].stem) + 1

    def case(self, name: str) -> DrillCase:
        """Damage a fresh copy, detect the damage, restore."""
        if name == CHECKPOINT:
            return self._lost_checkpoint()
        lake = self._fresh_copy()
        place = lake.visible
        work: dict[str, Callable[[], str | None]] = {
            "lost file": lambda: damage.lost_file(place.path),
            "broken log entry": lambda: damage.broken_entry(place.path),
            "missing log entry": lambda: damage.missing_entry(place.path),
            "flipped bit": lambda: damage.flipped_bit(place.path),
            "wrong merge": lambda: damage.wrong_merge(lake.spark, place.path, self._table),
        }
        done = work[name]()
        if done is None:
            nothing = Recovery("version", 0.0, equal=True, lost=0, reason="the table has nothing to damage this way")
            return DrillCase(name, "nothing", "nothing was damaged", 0.0, (nothing,))
        began = time.monotonic()
        finding = inspect(lake.lake, place, self.truth, self._versions)
        seconds = round(time.monotonic() - began, 2)
        ways = (
            self._timed("version", lambda into: self._from_version(lake, into, finding)),
            self._timed("changelog", self._from_changelog),
            self._timed("bronze", self._from_bronze),
        )
        return DrillCase(name, done, finding.what if finding is not None else None, seconds, ways)

    def _timed(self, way: str, work: Callable[[OpenTable], DataFrame]) -> Recovery:
        """Restore into an empty lake; compare."""
        into, began = self._lake(), time.monotonic()
        try:
            made = work(into)
            found = content(made)
        except LakehouseError as error:
            return Recovery(way, round(time.monotonic() - began, 2), reason=str(error))
        seconds = round(time.monotonic() - began, 2)
        if found == self.truth:
            return Recovery(way, seconds, found.rows, True, 0)
        lost = difference(self._table.key, self._expected, made).keys
        return Recovery(way, seconds, found.rows, False, lost)

    def _from_version(self, damaged: OpenTable, into: OpenTable, finding: Finding | None) -> DataFrame:
        # Moved to a new place: Spark remembers a log that it has read, and must read this one as it is now.
        lake, name = self._lake(), self._table.name
        for path in (Layout.silver, Layout.state):
            if (there := Path(path(damaged.layout, name))).exists():
                Path(path(lake.layout, name)).parent.mkdir(parents=True, exist_ok=True)
                there.rename(path(lake.layout, name))
        seen = lake.visible.path
        before = {} if finding is None or finding.before is None else {seen: finding.before}
        for entry in damage.entries(seen):
            if int(entry.stem) >= before.get(seen, int(entry.stem) + 1):
                for file in entry.parent.glob(f"{entry.stem}*"):
                    file.unlink()
        found = anchors.salvage(lake, into.layout, before)
        if found is None:
            raise NotFound("no version is intact: use the changelog, or bronze")
        if found < self.tick and self._is_restored:
            raise NotFound(
                f"the last intact version is of tick {found}, and bronze does not tell what a restored table lacks"
            )
        return self._written(into, Past(into).visible(Cut(self.tick)))

    def _from_changelog(self, into: OpenTable) -> DataFrame:
        if self._published is None:
            raise NotFound("no topic of its changelog was given")
        with changelog(self._opened, self._published, self.tick) as made:
            return self._written(into, made)

    def _from_bronze(self, into: OpenTable) -> DataFrame:
        if self._is_restored:
            raise NotFound("the table was restored from a topic: this lake's bronze does not have what came before")
        present.refuse_other_logic_above(self._opened, NO_TICK, self.tick)
        with Silver(into.lake, self._alone, lambda tick, records: None) as silver:
            silver.catch_up(self.tick)
        return into.lake.read(into.visible.path)

    def _lost_checkpoint(self) -> DrillCase:
        """The query is started, its checkpoint is removed, and it is started again: no row may come twice."""
        lake = self._fresh_copy()
        self._query(lake)
        control = Path(lake.layout.root, "control")
        shutil.rmtree(control)

        def again(_: OpenTable) -> DataFrame:
            self._query(lake)
            return reading.read(lake, AtTick(self.tick))

        found = "the writer: every start makes a fresh checkpoint, and continues from the table's own tick"
        return DrillCase(CHECKPOINT, "removed control/", found, 0.0, (self._timed("writer", again),))

    def _query(self, lake: OpenTable) -> None:
        with Silver(lake.lake, self._alone, lambda tick, records: None) as silver:
            query = silver.start(available_now=True)
            try:
                query.awaitTermination()
            finally:
                silver.check(query)

    def _written(self, into: OpenTable, made: DataFrame) -> DataFrame:
        made.write.format("delta").save(into.visible.path)
        return into.lake.read(into.visible.path)

    def _fresh_copy(self) -> OpenTable:
        lake = self._lake()
        for path in OF_TABLE:
            if (there := Path(path(self._copy.layout, self._table.name))).exists():
                shutil.copytree(there, path(lake.layout, self._table.name))
        return lake

    def _lake(self) -> OpenTable:
        """The table in a lake of its own, whose bronze, interventions and upstream tables are the live ones."""
        self._made += 1
        root = self._folder / str(self._made)
        root.mkdir(parents=True)
        live, here = self._opened.layout, Layout(str(root))
        links = {f"{live.root}/{name}": root / name for name in ("bronze", "interventions")}
        for upstream in self._table.stream.tables:
            links |= {path(live, upstream.name): Path(path(here, upstream.name)) for path in OF_TABLE}
        for there, link in links.items():
            if Path(there).exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(there).resolve(), target_is_directory=True)
        return self._opened.at(here)


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
