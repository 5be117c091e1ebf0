"""The writer of one silver table: lease, epoch, and one numbered commit a batch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from lakehouse.errors import LeaseHeld, PlanError
from lakehouse.lake import null_keys
from lakehouse.lake.commit_metadata import CommitContent, EventTimes, RecordCounts, TableCommit, VisibleCommit
from lakehouse.lake.control.writer_leases import table_lease
from lakehouse.lake.function_failures import failures_in_log
from lakehouse.lake.moment.older_bronze import older_bronze_error
from lakehouse.lake.place import TablePlace, late_place
from lakehouse.lake.reader import read_bronze_coverage
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import is_declared_for
from lakehouse.plan.expectation import row_failure, table_failure
from lakehouse.plan.stream import judges_of
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.semantics.failures import FunctionFailures, merge_failures
from lakehouse.spark.batch_cache import NO_BATCH, BatchCache
from lakehouse.spark.bronze.interventions import Intervention, last_intervention_tick, read_interventions
from lakehouse.spark.fold import fold
from lakehouse.spark.fold.bounds import HeldFrame, hold_with_bounds
from lakehouse.spark.fold.merge import RowMerge, merge_batch
from lakehouse.spark.fold.visibility import has_expiry, is_final
from lakehouse.spark.history import event_times, present_logic, table_clock
from lakehouse.spark.history.moments import Past, beside_for, built_table
from lakehouse.spark.jvm import folders
from lakehouse.spark.jvm.table_rewrite import TableRewriter
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.silver import visible
from lakehouse.spark.silver.quarantine_writer import QuarantineWriter
from lakehouse.spark.silver.row_rules import UnmetRows, find_unmet_rows
from lakehouse.spark.table import late, table_counts, tables, timelines
from lakehouse.spark.table.input import input_of, must_wait
from lakehouse.spark.transaction import append_empty_commit, check_epoch, commit_log_of, numbered_writes, open_epoch


class SilverWriter:
    """Writes one table. A context manager: entering takes the lease and opens an epoch.

    `applied_tick` may be ahead of the last commit, over ticks that held nothing for this table. `new_failures`: the
    functions that failed on records since the last call of `Silver.take_failures`.
    """

    def __init__(self, open_table: OpenTable, run_id: str) -> None:
        # A session of its own: the number of a commit is a setting of the session that writes it.
        self._open_table = open_table.own_session()
        self._lake, self._spark = self._open_table.lake, self._open_table.spark
        self._run_id = run_id
        self.table = open_table.table
        self._visible, self._state = open_table.visible, open_table.state
        self._rewriters = {place.path: TableRewriter(place.path) for place in self._open_table.places}
        self._lease = table_lease(open_table.layout, open_table.name)
        self.applied_tick = 0
        self.new_failures: tuple[FunctionFailures, ...] = ()

    def __enter__(self) -> SilverWriter:
        self._lease.acquire()
        try:
            self._interventions = read_interventions(self._lake, self.table.name)
            tables.create_table(self._open_table, swapped=self._awaits_swap())
            self._refuse_older_bronze()
            progress = open_epoch(self._spark, self._state)
            self._epoch, self.applied_tick = progress.epoch, progress.tick
            self._fold = tables.table_fold(self._spark, self.table)
            self._input = input_of(self._open_table)
            self._clock = table_clock.clock_at(self._open_table, self.applied_tick)
            self._through = event_times.through_at(self._open_table, self.applied_tick)
            self._failures = failures_in_log(commit_log_of(self._spark, self._state.path), self._state.name)
            self._null_keys = null_keys.null_keys_in_log(commit_log_of(self._spark, self._state.path), self._state.name)
            self._emitted_watermark: int | None = None
            self._late_epoch: int | None = None
            if self._state != self._visible:
                visible_progress = open_epoch(self._spark, self._visible)
                self._visible_epoch, self._visible_tick = visible_progress.epoch, visible_progress.tick
                self._update_visible(self.applied_tick)
        except BaseException:
            self._lease.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def _refuse_older_bronze(self) -> None:
        """Raise StorageError if the table has a tick that bronze does not have: see `older_bronze`.

        A run has looked before, at the whole lake. But from then on the table might have been put back from a copy, and
        where another process ingests, bronze as well.
        """
        root = self._open_table.layout.root
        table_ticks = {
            place.path.removeprefix(f"{root}/"): self._lake.progress(place).tick for place in self._open_table.places
        }
        # Bronze is read after the table, since ingest may go on meanwhile.
        bronze_tick = latest_complete_tick(self._lake)
        if ticks_ahead := {folder: tick for folder, tick in table_ticks.items() if tick > bronze_tick}:
            raise older_bronze_error(ticks_ahead, bronze_tick)

    def must_wait(self, to_tick: int) -> bool:
        """Say whether the table has to wait for records that it covers: see `lakehouse.spark.table.input.must_wait`."""
        return self.applied_tick == NO_TICK and must_wait(self._open_table, to_tick)

    def takes_all_at_once(self, to_tick: int) -> bool:
        """Say whether the next batch would take in all ticks up to `to_tick` at once, and all of their records."""
        return to_tick > self.applied_tick and self._input.skip is None and not self._pending_interventions(to_tick)

    def apply(self, to_tick: int, quarantine: QuarantineWriter, cache: BatchCache = NO_BATCH) -> int:
        """Take in the ticks up to `to_tick`, after their bad records are written; return the number of records seen.

        cache: that of the batch, which this and other tables read.
        """
        records = 0
        # Never by the logic that is about to come: rows of both would stand in one version.
        for intervention in present_logic.without_earlier_logic(self._pending_interventions(to_tick)):
            if not present_logic.brings_other_logic(intervention):
                records += self._take_in(intervention.at - 1, quarantine, cache)
            self._apply_intervention(intervention, quarantine)
        return records + self._take_in(to_tick, quarantine, cache)

    def _pending_interventions(self, to_tick: int) -> list[Intervention]:
        """Return the interventions up to `to_tick` that are not applied yet, in their order."""
        if last_intervention_tick(self._lake) > self.applied_tick:
            self._interventions = read_interventions(self._lake, self.table.name)
        return [intervention for intervention in self._interventions if self.applied_tick < intervention.at <= to_tick]

    def _take_in(self, to_tick: int, quarantine: QuarantineWriter, cache: BatchCache) -> int:
        if to_tick <= self.applied_tick:
            return 0
        batch_input = replace(self._input, lake=replace(self._lake, cache=cache))
        read_records = partial(batch_input.records_with_clocks, self.applied_tick, to_tick)
        folded_batch = fold.fold_batch(self._fold, read_records, self._read_state, self._clock, self._emitted_watermark)
        try:
            for source in folded_batch.bad:
                quarantine.write(source, to_tick, cache)
            if folded_batch.late:
                late.write_late(
                    self._open_table, folded_batch.late_rows, folded_batch.late_joins, self._epoch_of_late(), to_tick
                )
            # A table that reads others records its progress, even if none of them changed; a restored one, if the
            # records that came are among those that it holds already.
            has_input = (
                folded_batch.records > 0
                or (bool(self.table.stream.tables) and timelines.has_rows(self._open_table, self.applied_tick, to_tick))
                or self._has_covered_records()
            )
            if has_input:
                unmet_rows = find_unmet_rows(self._fold, folded_batch.batch, self._read_state)
                if quarantine.stops_run:
                    self._refuse_unmet(folded_batch.failures, unmet_rows)
                failed_rows = [unmet.as_failed(self.table.name) for unmet in unmet_rows]
                folded_batch.failures = merge_failures(folded_batch.failures, failed_rows)
                self._commit_batch(folded_batch, to_tick)
        finally:
            folded_batch.release()
        if has_input:
            self._update_visible(to_tick, cache)
        self.applied_tick = to_tick
        return folded_batch.records

    def _refuse_unmet(self, failures: Iterable[FunctionFailures], unmet_rows: Iterable[UnmetRows]) -> None:
        """Raise ExpectationFailed if records or rows of a batch do not meet an expectation that stops the run."""
        stopping_names = {judge.name for judge in judges_of(self.table.stream) if judge.expectation.otherwise == "fail"}
        for failure in failures:
            if failure.expectation in stopping_names:
                name = failure.expectation
                raise table_failure(self.table.name, failure.first, failure.records, name, failure.error)
        for unmet in unmet_rows:
            if unmet.expectation.otherwise == "fail":
                raise row_failure(self.table.name, unmet.key, unmet.rows, unmet.reason)

    def _has_covered_records(self) -> bool:
        """Say whether it is a restored table whose topics have records after the last tick that it has applied."""
        if self._input.skip is None:
            return False
        return read_bronze_coverage(self._open_table.layout).last_tick(self.table.stream.topics) > self.applied_tick

    def _read_state(self) -> DataFrame:
        """Return the rows that the table keeps now."""
        rows = self._rewriters[self._state.path].read_rows(self._spark)
        return self._lake.read(self._state.path) if rows is None else rows

    @property
    def seen_tick(self) -> int:
        """The last tick whose records it has all seen. A restored table has not seen the records that it covers."""
        return self.applied_tick if self._input.skip is None else NO_TICK

    def check_ownership(self) -> None:
        """Raise Fenced when another writer has taken the table over."""
        check_epoch(self._spark, self._state, self._epoch)

    def _epoch_of_late(self) -> int:
        """Return the epoch of the late table; the first call opens it."""
        if self._late_epoch is None:
            late.create_late_table(self._open_table)
            self.check_ownership()
            table_place = late_place(self._open_table.layout, self.table.name)
            self._late_epoch = open_epoch(self._spark, table_place).epoch
        return self._late_epoch

    def _commit_batch(self, folded_batch: fold.FoldedBatch, to_tick: int) -> None:
        first_ms, last_ms = folded_batch.times or (None, None)
        through = event_times.latest_of(self._through, last_ms)
        failures = merge_failures(self._failures, folded_batch.failures)
        null_key_count = self._null_keys + folded_batch.null_keys
        content = TableCommit(
            from_tick=self.applied_tick,
            run=self._run_id,
            keys=folded_batch.batch.count,
            counts=folded_batch.counts(),
            times=EventTimes(first_ms, last_ms, through),
            clock=folded_batch.clock,
            failures=failures,
            null_keys_so_far=null_key_count,
        )
        self._commit(self._state, Progress(self._epoch, to_tick), content, folded_batch.batch, self._fold)
        self._clock, self._through, self._failures, self._null_keys = (
            folded_batch.clock,
            through,
            failures,
            null_key_count,
        )
        self.new_failures = merge_failures(self.new_failures, folded_batch.failures)

    def _commit(
        self,
        table_place: TablePlace,
        target_progress: Progress,
        content: CommitContent,
        batch: HeldFrame | None,
        row_merge: RowMerge,
        *,
        fresh: bool = False,
    ) -> None:
        """Bring one of the table's two places to a progress, in one commit. batch and the rest: see `merge_batch`."""
        if batch is None or batch.count == 0:
            # Records came but none touched a row: the table still records its progress.
            append_empty_commit(self._spark, table_place, target_progress, content)
        else:
            rewriter = self._rewriters[table_place.path]
            with numbered_writes(self._spark, table_place, target_progress, content) as number:
                merge_batch(self._spark, table_place.path, row_merge, batch, number, rewriter, fresh=fresh)

    def _apply_intervention(self, intervention: Intervention, quarantine: QuarantineWriter) -> None:
        """Apply the next intervention. A swap or a revert opens the next epoch."""
        if intervention.kind == "swap" and not is_declared_for(self.table, intervention.details):
            raise PlanError(
                f"table {self.table.name!r} will be swapped for one under another declaration, at tick "
                f"{intervention.at}. Run the application that declares it. If the folder of the table was removed, to "
                "build it anew, declare it under another name: what was decided about a table holds for its name."
            )
        if intervention.kind in ("swap", "revert"):
            # The epoch after its own: the next free one might belong to a writer that has taken the table over.
            self._epoch = open_epoch(self._spark, self._state, self._epoch + 1).epoch
        swap_counts = self._take_over_built_table(intervention, quarantine) if intervention.kind == "swap" else None
        self._through = event_times.through_after(
            self._open_table, self._fold, self._through, self._interventions, intervention
        )
        changed_rows = Past(self._open_table).changed_rows(intervention, self.applied_tick, visible=False)
        held_batch = hold_with_bounds(changed_rows, self.table.key)
        try:
            content = TableCommit(
                operation=intervention.kind,
                from_tick=self.applied_tick,
                run=self._run_id,
                keys=held_batch.count,
                times=EventTimes(through=self._through),
                clock=self._clock,
                failures=self._failures,
                null_keys_so_far=self._null_keys,
                swap_counts=swap_counts,
            )
            # Not by the fold: a row with an older order replaces a newer one, too.
            self._commit(self._state, Progress(self._epoch, intervention.at), content, held_batch, RowMerge(self.table))
        finally:
            held_batch.memory.release()
        self.applied_tick = intervention.at
        self._update_visible(intervention.at)

    def _take_over_built_table(self, intervention: Intervention, quarantine: QuarantineWriter) -> RecordCounts:
        """Take over from a table that is swapped in: clock, times, late and bad records; return its counts.

        All of this can be repeated after a crash; the table's commit comes last.
        """
        table_beside, to_tick = self._built_table(intervention), intervention.at - 1
        try:
            # Other logic may have another clock, and other times.
            self._clock = table_clock.clock_at(table_beside, to_tick)
            self._through = event_times.latest_of(self._through, event_times.through_at(table_beside, to_tick))
            if any(self._lake.exists(candidate.late) for candidate in (self._open_table, table_beside)):
                late.swap_late(self._open_table, table_beside.layout, self._epoch_of_late(), intervention.at)
            for source in self.table.stream.decodes if intervention.details.get("changed") else ():
                quarantine.swap_in(source, table_beside.layout, to_tick)
            built_place = table_beside.state
            self._failures = failures_in_log(commit_log_of(self._spark, built_place.path), built_place.name)
            self._null_keys = null_keys.null_keys_in_log(commit_log_of(self._spark, built_place.path), built_place.name)
            return table_counts.count_by_commits(self._lake, built_place, to_tick).counts
        finally:
            if table_beside.layout.beside != intervention.details["beside"]:
                folders.remove_folder(self._spark, table_beside.layout.tables)

    def _built_table(self, intervention: Intervention) -> OpenTable:
        """Return the table of a swap, up to the tick before: the one built for it, or a new one if it is gone."""
        table_beside = built_table(self._open_table, intervention)
        if table_beside.layout.beside == intervention.details["beside"]:
            with suppress(LeaseHeld):
                self._build_beside(table_beside, intervention.at - 1)
                return table_beside
        rebuilt_table = beside_for(self._open_table, intervention, "-again")
        folders.remove_folder(self._spark, rebuilt_table.layout.tables)
        self._build_beside(rebuilt_table, intervention.at - 1)
        return rebuilt_table

    def _build_beside(self, table_beside: OpenTable, to_tick: int) -> None:
        with SilverWriter(table_beside, self._run_id) as writer:
            quarantine = QuarantineWriter(
                table_beside.lake, App((self.table,), (), self.table.stream.decodes), [writer], stops_run=False
            )
            quarantine.declare_streams()
            writer.apply(to_tick, quarantine)

    def _awaits_swap(self) -> bool:
        """Say whether a swap to the present declaration is recorded but not applied yet."""
        if not self._lake.exists(self._state.path):
            return False
        applied_tick = self._open_table.read_progress().tick
        return any(
            intervention.kind == "swap"
            and intervention.at > applied_tick
            and is_declared_for(self.table, intervention.details)
            for intervention in self._interventions
        )

    def _update_visible(self, to_tick: int, cache: BatchCache = NO_BATCH) -> None:
        """Bring the visible table to a tick that the state has, if these are two tables. cache: that of the batch."""
        if self._state == self._visible:
            return
        if to_tick > self._visible_tick:
            has_intervention = any(
                self._visible_tick < intervention.at <= to_tick for intervention in self._interventions
            )
            # Final results appear once: their keys are new, unless somebody corrected them.
            fresh = is_final(self.table) and not has_expiry(self.table) and not has_intervention
            batch_table = replace(self._lake, cache=cache).open(self.table)
            changed_rows = visible.visible_changes(
                batch_table, self._visible_tick, to_tick, self._clock, has_intervention=has_intervention
            )
            held_batch = hold_with_bounds(changed_rows, self.table.key)
            try:
                target_progress = Progress(self._visible_epoch, to_tick)
                content = VisibleCommit(from_tick=self._visible_tick, run=self._run_id, keys=held_batch.count)
                self._commit(self._visible, target_progress, content, held_batch, RowMerge(self.table), fresh=fresh)
            finally:
                held_batch.memory.release()
            self._visible_tick = to_tick
        self._emitted_watermark = self._clock.watermark if self._clock is not None else None


def latest_complete_tick(lake: OpenLake) -> int:
    """Return bronze's last complete tick."""
    return lake.progress(lake.bronze).tick
