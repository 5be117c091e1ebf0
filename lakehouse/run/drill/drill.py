"""Recovery drills: damage a copy of a table, detect the damage, and restore the table in three ways.

A drill only reads the live table. Its folder, <lake>/beside/drill-<table>, holds small lakes, each with a copy of the
table, or with nothing, to restore into. They share the live bronze and the live tables that the table reads, and no
drill writes these. If the lake is in an object store, the folder is a temporary one of this machine.

    version     the newest version that is whole and not suspect, then the later records of bronze
    changelog   the published topic alone
    bronze      records and interventions, from the first one, by the table's own writer
    writer      the writer starts again: for damage from which it recovers by itself
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake import store
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import CopyLayout, Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.app import App
from lakehouse.run.drill.logbook import Drill, DrillCase, Recovery, add_to_history
from lakehouse.run.repair.restore import Published, changelog_rows
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.audit import damage
from lakehouse.spark.audit.inspection import Finding, find_damage
from lakehouse.spark.content import compare_tables, content_of
from lakehouse.spark.history import anchors, present_logic, reading
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.silver.query import Silver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHECKPOINT = "lost checkpoint"
# The places of a table in a lake.
TABLE_PLACES = (Layout.silver, Layout.state, Layout.late, Layout.anchors)
DAMAGES = ("lost file", "broken log entry", "missing log entry", "flipped bit", "wrong merge", CHECKPOINT)


def drill(
    open_table: OpenTable,
    published: Published | None = None,
    damages: tuple[str, ...] = DAMAGES,
    listen: Callable[[DrillCase], None] = lambda case: None,
) -> Drill:
    """Run a drill of a table, and add it to the history. `listen` gets the result of each damage.

    Raises NotFound for a table that does not exist, ConfigError for a damage that is not in `DAMAGES`, LeaseHeld while
    another drill of the table runs.
    """
    table = open_table.table
    if unknown := [name for name in damages if name not in DAMAGES]:
        raise ConfigError(f"drill: found damage {unknown[0]!r}; expected one of: {', '.join(DAMAGES)}.")
    if not open_table.table_exists():
        raise NotFound(f"table {table.name!r} does not exist in {open_table.layout.root}. Run its application first.")
    started, moment_text = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    with (
        Lease(open_table.layout.lease(f"drill-{table.name}"), f"the drill of table {table.name!r}"),
        _drill_folder(open_table) as folder,
    ):
        running = _RunningDrill(open_table, folder, published)
        cases = []
        for name in damages:
            cases.append(running.run_case(name))
            listen(cases[-1])
        is_ok = all(case.ok for case in cases)
        truth, drill_seconds = running.truth, round(time.monotonic() - started, 1)
        drill_result = Drill(
            moment_text, table.name, running.tick, truth.rows, truth.hash, drill_seconds, is_ok, tuple(cases)
        )
        add_to_history(open_table.layout, drill_result)
    return drill_result


@contextmanager
def _drill_folder(open_table: OpenTable) -> Iterator[Path]:
    """Give an empty folder of this machine for the copies, and remove it at the end."""
    if store.is_remote(open_table.layout.root):
        with tempfile.TemporaryDirectory(prefix=f"lakehouse-drill-{open_table.name}-") as temporary_folder:
            yield Path(temporary_folder)
        return
    folder = Path(open_table.layout.root, "beside", f"drill-{open_table.name}")
    shutil.rmtree(folder, ignore_errors=True)  # a killed drill left it
    try:
        folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _RunningDrill:
    """A drill under way: the untouched copy, its content, and a new small lake for each attempt."""

    def __init__(self, open_table: OpenTable, folder: Path, published: Published | None) -> None:
        self._opened, self._table, self._folder = open_table, open_table.table, folder
        self._published = published
        self._lake_count = 0
        self._alone = App((open_table.table,), (), open_table.table.stream.sources)
        self._is_restored = open_table.read_skipped_offsets() is not None
        self._copy = self._open_lake()
        # The visible table comes first: the live writer commits it last, so it is never ahead of the state.
        for path in TABLE_PLACES:
            _copy_table(path(open_table.layout, open_table.name), Path(path(self._copy.layout, open_table.name)))
        self.tick = self._copy.lake.progress(self._copy.visible).tick
        self._expected = reading.read_rows(open_table, AtTick(self.tick))
        self.truth = content_of(self._expected)
        self._versions = int(damage.log_entries(self._copy.visible.path)[-1].stem) + 1

    def run_case(self, name: str) -> DrillCase:
        """Damage a fresh copy, detect the damage, restore."""
        if name == CHECKPOINT:
            return self._lost_checkpoint()
        damaged_table = self._fresh_copy()
        visible_place = damaged_table.visible
        damage_by_name: dict[str, Callable[[], str | None]] = {
            "lost file": lambda: damage.remove_largest_file(visible_place.path),
            "broken log entry": lambda: damage.cut_last_entry(visible_place.path),
            "missing log entry": lambda: damage.remove_middle_entry(visible_place.path),
            "flipped bit": lambda: damage.flip_bit(visible_place.path),
            "wrong merge": lambda: damage.merge_wrong_rows(damaged_table.spark, visible_place.path, self._table),
        }
        damage_text = damage_by_name[name]()
        if damage_text is None:
            nothing = Recovery("version", 0.0, equal=True, lost=0, reason="the table has nothing to damage this way")
            return DrillCase(name, "nothing", "nothing was damaged", 0.0, (nothing,))
        started = time.monotonic()
        finding = find_damage(damaged_table.lake, visible_place, self.truth, self._versions)
        detection_seconds = round(time.monotonic() - started, 2)
        ways = (
            self._time_recovery("version", lambda into: self._from_version(damaged_table, into, finding)),
            self._time_recovery("changelog", self._from_changelog),
            self._time_recovery("bronze", self._from_bronze),
        )
        return DrillCase(name, damage_text, finding.fault if finding is not None else None, detection_seconds, ways)

    def _time_recovery(self, way: str, work: Callable[[OpenTable], DataFrame]) -> Recovery:
        """Restore into an empty lake; compare."""
        target_table, started = self._open_lake(), time.monotonic()
        try:
            restored_rows = work(target_table)
            restored_content = content_of(restored_rows)
        except LakehouseError as error:
            return Recovery(way, round(time.monotonic() - started, 2), reason=str(error))
        recovery_seconds = round(time.monotonic() - started, 2)
        if restored_content == self.truth:
            return Recovery(way, recovery_seconds, restored_content.rows, True, 0)
        lost_keys = compare_tables(self._table.key, self._expected, restored_rows).keys
        return Recovery(way, recovery_seconds, restored_content.rows, False, lost_keys)

    def _from_version(self, damaged_table: OpenTable, target_table: OpenTable, finding: Finding | None) -> DataFrame:
        # Move it to a new place: Spark remembers a log that it has read, and must read this log as it is now.
        moved_table, name = self._open_lake(), self._table.name
        for path in (Layout.silver, Layout.state):
            if (damaged_path := Path(path(damaged_table.layout, name))).exists():
                Path(path(moved_table.layout, name)).parent.mkdir(parents=True, exist_ok=True)
                damaged_path.rename(path(moved_table.layout, name))
        visible_path = moved_table.visible.path
        whole_versions = (
            {} if finding is None or finding.first_untrusted is None else {visible_path: finding.first_untrusted}
        )
        for entry in damage.log_entries(visible_path):
            if int(entry.stem) >= whole_versions.get(visible_path, int(entry.stem) + 1):
                for file in entry.parent.glob(f"{entry.stem}*"):
                    file.unlink()
        salvaged_tick = anchors.salvage_anchor(moved_table, target_table.layout, whole_versions)
        if salvaged_tick is None:
            raise NotFound("no version is intact: use the changelog, or bronze")
        if salvaged_tick < self.tick and self._is_restored:
            raise NotFound(
                f"the last intact version is of tick {salvaged_tick}, and bronze does not tell what a restored table "
                "lacks"
            )
        return self._write_rows(target_table, Past(target_table).visible_rows(Cut(self.tick)))

    def _from_changelog(self, target_table: OpenTable) -> DataFrame:
        if self._published is None:
            raise NotFound("no topic of its changelog was given")
        with changelog_rows(self._opened, self._published, self.tick) as restored_rows:
            return self._write_rows(target_table, restored_rows)

    def _from_bronze(self, target_table: OpenTable) -> DataFrame:
        if self._is_restored:
            raise NotFound("the table was restored from a topic: this lake's bronze does not have what came before")
        present_logic.refuse_other_logic_above(self._opened, NO_TICK, self.tick)
        with Silver(target_table.lake, self._alone, lambda tick, records: None, stops_run=False) as silver:
            silver.catch_up(self.tick)
        return target_table.lake.read(target_table.visible.path)

    def _lost_checkpoint(self) -> DrillCase:
        """Start the query, remove its checkpoint, and start it again: no row may come twice."""
        copied_table = self._fresh_copy()
        self._run_query(copied_table)
        control = Path(copied_table.layout.root, "control")
        shutil.rmtree(control)

        def restart_query(_: OpenTable) -> DataFrame:
            self._run_query(copied_table)
            return reading.read_rows(copied_table, AtTick(self.tick))

        detection = "the writer: every start makes a fresh checkpoint, and continues from the table's own tick"
        return DrillCase(
            CHECKPOINT, "removed control/", detection, 0.0, (self._time_recovery("writer", restart_query),)
        )

    def _run_query(self, copied_table: OpenTable) -> None:
        with Silver(copied_table.lake, self._alone, lambda tick, records: None, stops_run=False) as silver:
            query = silver.start_query(available_now=True)
            try:
                query.awaitTermination()
            finally:
                silver.check_query(query)

    def _write_rows(self, target_table: OpenTable, restored_rows: DataFrame) -> DataFrame:
        restored_rows.write.format("delta").save(target_table.visible.path)
        return target_table.lake.read(target_table.visible.path)

    def _fresh_copy(self) -> OpenTable:
        copied_table = self._open_lake()
        for path in TABLE_PLACES:
            if (source_path := Path(path(self._copy.layout, self._table.name))).exists():
                shutil.copytree(source_path, path(copied_table.layout, self._table.name))
        return copied_table

    def _open_lake(self) -> OpenTable:
        """Open the table in a lake of its own, with the live bronze, interventions and upstream tables."""
        self._lake_count += 1
        root = self._folder / str(self._lake_count)
        root.mkdir()
        return self._opened.with_layout(CopyLayout(str(root), live=self._opened.layout, table=self._table.name))


def _copy_table(live_path: str, copy: Path) -> None:
    """Copy a table while its job writes it: the log first, so the copy has every file that its log names."""
    if store.is_remote(live_path):
        log_files = [path for path in store.files_below(live_path) if "/_delta_log/" in path]
        for path in [*log_files, *(path for path in store.files_below(live_path) if "/_delta_log/" not in path)]:
            # It would name a checkpoint that is younger than the list of files.
            if not path.endswith("/_last_checkpoint"):
                with suppress(FileNotFoundError):
                    store.copy_file(path, copy / path.removeprefix(f"{live_path}/"))
        return
    live = Path(live_path)
    for log in sorted(live.rglob("_delta_log")):
        shutil.copytree(log, copy / log.relative_to(live), copy_function=_copy_file)
    if live.exists():
        skip = shutil.ignore_patterns("_delta_log")
        shutil.copytree(live, copy, dirs_exist_ok=True, ignore=skip, copy_function=_copy_file)


def _copy_file(live: str, copy: str) -> None:
    # A file of a commit under way, or a removed file, may be gone: the copied log does not name it.
    with suppress(FileNotFoundError):
        shutil.copyfile(live, copy)
