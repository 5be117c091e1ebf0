"""Late correction: on request, a table takes in late records of closed windows after all, by an intervention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.stream_join import meeting_streams, reads_one_join
from lakehouse.run.repair.carry_out import carry_out
from lakehouse.run.repair.chosen_records import late_places
from lakehouse.run.repair.intervene import NO_REASON, Why
from lakehouse.run.repair.stages import Intervene, KeepLate, LateChoice, RepairPlan, basis_of
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
from lakehouse.spark.bronze.interventions import last_intervention_tick
from lakehouse.spark.history import present_logic, refold
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import late


@dataclass(frozen=True, slots=True)
class Corrected:
    """The result of a correction: its tick, and how many late records it took in. `tick` is None if it is planned.

    out_of_reach: late records of the request that can't be taken in: they were too late for a join behind another join.
    """

    tick: int | None
    records: int
    out_of_reach: int = 0

    def at_tick(self, tick: int) -> Self:
        """Return it once the records were taken in."""
        return replace(self, tick=tick)


def correct(
    open_table: OpenTable,
    app: App,
    *,
    key: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    why: Why = NO_REASON,
) -> Corrected:
    """Take in late records of a windowed table after all; its next version has them. See `plan_correction`."""
    return carry_out(open_table.lake, app, plan_correction(open_table, LateChoice(key, start, end)), why)


def plan_correction(open_table: OpenTable, choice: LateChoice) -> RepairPlan[Corrected]:
    """Plan to take in late records of a windowed table after all. A running job goes on, and applies the correction.

    A record counts as a whole, for all windows for which it was late. Raises PlanError for a table without windows,
    NotFound if no such record is late.
    """
    table = open_table.table
    refuse_during_erasure(open_table.layout, (table.name,))
    if not table.windows and not meeting_streams(table.stream):
        raise PlanError(
            f"table {table.name!r} has no windows, and reads no join of streams: only what came too late for one "
            "of them can be taken in."
        )
    if not open_table.lake.exists(open_table.late):
        raise NotFound(f"table {table.name!r} has no late records.")
    basis = basis_of([table], last_intervention_tick(open_table.lake))
    out_of_reach = _count_out_of_reach(open_table, choice)
    late_facts = late_places(open_table, choice).agg({"*": "count", "tick": "max"}).first()
    assert late_facts is not None
    record_count, last_tick = late_facts["count(1)"], late_facts["max(tick)"]
    if record_count == 0:
        raise NotFound(
            f"table {table.name!r} has no late record that fits and was not taken in yet. "
            f"`lakehouse look late {table.name}` lists them."
        )
    refold.check_restored_rows(open_table)  # a restored table: the rows to fold onto must exist
    present_logic.check_declared_above(open_table)
    stages = (KeepLate(table.name, choice, last_tick, record_count), Intervene("late", (table.name,), {}))
    return RepairPlan(stages, Corrected(None, record_count, out_of_reach), basis, is_exclusive=False)


def _count_out_of_reach(open_table: OpenTable, choice: LateChoice) -> int:
    """Return how many chosen records can't be taken in. Raises PlanError if there are no others."""
    table = open_table.table
    if reads_one_join(table.stream):
        return 0
    late_facts = (
        late.select_late(open_table, choice.key, choice.start, choice.end)
        .selectExpr(
            "min(join_name) AS join_name",
            "count_if(join_name IS NULL) AS in_reach",
            f"count(DISTINCT if(join_name IS NULL, NULL, struct({', '.join(late.PLACE)}))) AS out_of_reach",
        )
        .first()
    )
    assert late_facts is not None
    if late_facts["join_name"] is not None and not late_facts["in_reach"]:
        raise PlanError(
            f"table {table.name!r}: these records came too late for the join {late_facts['join_name']}, and what "
            "comes out of it goes through another join, or a merge, before it reaches the table: there it would be "
            f"too late again. `lakehouse look late {table.name}` has their bytes. Declare the join with a longer "
            "grace, and backfill the table."
        )
    return int(late_facts["out_of_reach"])
