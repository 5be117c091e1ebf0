"""Quarantine replay: records that did not fit their schema count with other bytes, each at its original position.

The fix is an intervention: bronze and the quarantine keep the original bytes. A replay refolds only what depends on the
record: the rows of its keys, in the tables that read its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from lakehouse.errors import PlanError
from lakehouse.lake import intervention_log
from lakehouse.lake.moment.files import LakeFiles
from lakehouse.lake.properties import SKIP
from lakehouse.lake.record.fixed_records import FixedBytes, format_identities, read_fixed_in_table
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import check_declared_above
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Table
from lakehouse.run.repair.fixes import Fixed, replay_refusal
from lakehouse.run.repair.stages import Intervene, KeepFixes, RepairPlan, basis_of
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.position import Identity

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.intervene import Why
    from lakehouse.spark.open_lake import OpenLake


@dataclass(frozen=True, slots=True)
class FixOutcome:
    """The result of a fix: how many records count with other bytes, and from which tick on; None if it is planned."""

    records: int
    tick: int | None = None

    def at_tick(self, tick: int) -> Self:
        """Return it once the records count."""
        return replace(self, tick=tick)


def bytes_of_fixes(fixed: Iterable[Fixed]) -> list[FixedBytes]:
    """Return the records of a fix that fit now, with the bytes that count instead."""
    return [FixedBytes(*fix.was.record.identity, fix.key, fix.value) for fix in fixed]


def replay(
    lake: OpenLake,
    app: App,
    source: Source,
    fixes: Iterable[FixedBytes],
    *,
    why: Why | None = None,
    again: bool = False,
    instead: bool = False,
) -> int | None:
    """Let quarantined records of a stream count with other bytes, see `plan_replay`; return the tick.

    Raises NotFound for a record that is not in the quarantine, PlanError for one that does not fit with its new bytes
    either.
    """
    from lakehouse.run.repair.carry_out import carry_out
    from lakehouse.run.repair.intervene import NO_REASON

    plan = plan_replay(lake.layout, app, source, fixes, lambda: lake, again=again, instead=instead)
    return carry_out(lake, app, plan, why or NO_REASON).tick


def plan_replay(
    layout: Layout,
    app: App,
    source: Source,
    fixes: Iterable[FixedBytes],
    open_lake: Callable[[], OpenLake],
    *,
    again: bool = False,
    instead: bool = False,
) -> RepairPlan[FixOutcome]:
    """Plan to let quarantined records of a stream count with other bytes, in all tables of the application.

    open_lake: opens the lake with Spark; called if such a table was restored. again: leave out records that were fixed
    before, for a caller that can't know whether an earlier try succeeded; the plan has no stages if no record is left.
    instead: records that were fixed before get the new bytes. A fix that a revert of a table took back does not count
    as a fix. Raises PlanError for a record that was fixed before, or came before the restore of a table that reads it,
    and if no table reads the stream.
    """
    if (refusal := replay_refusal(app, source)) is not None:
        raise PlanError(refusal)
    last_decided = next(intervention_log.read_interventions(layout, limit=1), None)
    readers = [table for table in app.tables if source in table.stream.decodes]
    refuse_during_erasure(layout, [table.name for table in readers])
    basis = basis_of(readers, NO_TICK if last_decided is None else last_decided["at"])
    remaining_fixes = {fix.identity: fix for fix in fixes}
    restored_readers = _check_readers(layout, readers)
    if restored_readers:
        from lakehouse.run.repair.chosen_records import refuse_before_restore

        lake = open_lake()
        for table in restored_readers:
            refuse_before_restore(lake.open(table), source, tuple(remaining_fixes.values()))
    if already_fixed := _find_already_fixed(layout, readers, remaining_fixes, alike=instead):
        remaining_fixes = {identity: fix for identity, fix in remaining_fixes.items() if identity not in already_fixed}
        if not again and not (instead and remaining_fixes):
            advice = (
                "with these bytes"
                if instead
                else "--open or --again leaves such out, --instead gives them the new bytes"
            )
            raise PlanError(
                f"stream {source.name!r}: {format_identities(source.topic, sorted(already_fixed))} "
                f"{'was' if len(already_fixed) == 1 else 'were'} fixed before; {advice}. If a table lacks what was "
                "fixed, as after a kill, the next run takes it in."
            )
    reader_names = tuple(table.name for table in readers)
    kept_fixes = KeepFixes(source.name, tuple(remaining_fixes.values()))
    stages = (kept_fixes, Intervene("fixed", reader_names, {"stream": source.name})) if remaining_fixes else ()
    return RepairPlan(stages, FixOutcome(len(remaining_fixes)), basis, is_exclusive=False)


def finish_fixes(open_lake: Callable[[], OpenLake], layout: Layout, app: App, source: Source) -> int | None:
    """Bring the tables that read a stream to its last fix, if a killed replay has left one behind; return its tick.

    open_lake: opens the lake with Spark; called if a table is behind. None if all tables have what was fixed.
    """
    lake_files, logged_by_table = LakeFiles(layout), intervention_log.interventions_by_table(layout)
    tick_by_table: dict[Table, int] = {}
    for table in app.tables:
        if source not in table.stream.decodes or (log := lake_files.open_table(layout.silver(table.name))) is None:
            continue
        fix_ticks = [logged.at for logged in logged_by_table.get(table.name, []) if logged.kind == "fixed"]
        if fix_ticks and log.tick(table.name) < fix_ticks[-1]:
            tick_by_table[table] = fix_ticks[-1]
    if not tick_by_table:
        return None
    from lakehouse.run.repair.intervene import bring_table

    lake = open_lake()
    for table, tick in tick_by_table.items():
        bring_table(lake.open(table), app, tick)
    return max(tick_by_table.values())


def _check_readers(layout: Layout, readers: Iterable[Table]) -> list[Table]:
    """Return the tables that were restored from a topic.

    Raises PlanError if a table reads one that the lake has under another declaration.
    """
    lake_files = LakeFiles(layout)

    def stored_properties(table: Table) -> Mapping[str, str] | None:
        table_log = lake_files.open_table(layout.silver(table.name))
        return None if table_log is None else table_log.properties()

    for table in readers:
        check_declared_above(table, stored_properties)
    return [table for table in readers if SKIP in (stored_properties(table) or {})]


def _find_already_fixed(
    layout: Layout, readers: Iterable[Table], fixes: Mapping[Identity, FixedBytes], *, alike: bool
) -> set[Identity]:
    """Return the records that an earlier fix, not taken back, covers in all tables. alike: with the same bytes."""
    return set.intersection(
        *(
            {identity for identity in fixes.keys() & fixed.keys() if not alike or fixes[identity] == fixed[identity]}
            for fixed in (read_fixed_in_table(layout, table.name) for table in readers)
        )
    )
