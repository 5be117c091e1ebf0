"""Late correction: on request, a table takes in late records of closed windows after all, by an intervention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.plan.app import App
from lakehouse.plan.stream_join import meeting_streams, reads_one_join
from lakehouse.run.repair.intervene import NO_REASON, Why, intervene
from lakehouse.semantics.epoch import EVER
from lakehouse.spark.bronze import interventions
from lakehouse.spark.history import refold
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import late


@dataclass(frozen=True, slots=True)
class Corrected:
    """The result of a correction: its tick, and how many late records it took in. `tick` is None after a dry run.

    out_of_reach: late records of the request that can't be taken in: they were too late for a join behind another join.
    """

    tick: int | None
    records: int
    out_of_reach: int = 0


def correct(
    open_table: OpenTable,
    app: App,
    *,
    key: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    why: Why = NO_REASON,
    dry_run: bool = False,
) -> Corrected:
    """Take in late records of a windowed table after all; its next version has them.

    key: only that key's records, by its text, see `lakehouse.formats.key_text`. start, end: only of windows that begin
    in [start, end). A record counts as a whole, for all windows for which it was late. Raises PlanError for a table
    without windows, NotFound if no such record is late. A running job goes on, and applies the correction.
    """
    table = open_table.table
    if not table.windows and not meeting_streams(table.stream):
        raise PlanError(
            f"table {table.name!r} has no windows, and reads no join of streams: only what came too late for one "
            "of them can be taken in."
        )
    if not open_table.lake.exists(open_table.late):
        raise NotFound(f"table {table.name!r} has no late records.")
    late_rows = late.select_late(open_table, key, start, end)
    out_of_reach = 0
    if not reads_one_join(table.stream):
        joined_rows, late_rows = late_rows.where("join_name IS NOT NULL"), late_rows.where("join_name IS NULL")
        if (first_joined := joined_rows.first()) is not None and late_rows.isEmpty():
            raise PlanError(_out_of_reach_message(table.name, first_joined["join_name"]))
        out_of_reach = joined_rows.select(*late.PLACE).distinct().count()
    # A reverted correction can be made again.
    earlier_corrections = [
        decision
        for decision in interventions_in_effect(interventions.read_interventions(open_table.lake, table.name), EVER)
        if decision.kind == "late"
    ]
    if (corrected_records := interventions.read_intervention_records(open_table.lake, earlier_corrections)) is not None:
        late_rows = late_rows.join(corrected_records.select(*late.PLACE), list(late.PLACE), "left_anti")
    late_records = late_rows.select(*late.PLACE).distinct().persist()
    try:
        if (record_count := late_records.count()) == 0:
            raise NotFound(
                f"table {table.name!r} has no late record that fits and was not taken in yet. "
                f"`lakehouse look late {table.name}` lists them."
            )
        refold.check_restored_rows(open_table)  # a restored table: the rows to fold onto must exist
        if dry_run:
            return Corrected(None, record_count, out_of_reach)
        records_id = interventions.keep_records(open_table.lake, late_records)
    finally:
        late_records.unpersist()
    request = why.to_request("late", [table.name], {}, records_id)
    return Corrected(intervene(open_table.lake, app, request), record_count, out_of_reach)


def _out_of_reach_message(table: str, join: str) -> str:
    return (
        f"table {table!r}: these records came too late for the join {join}, and what comes out of it goes through "
        "another join, or a merge, before it reaches the table: there it would be too late again. `lakehouse look late "
        f"{table}` has their bytes. Declare the join with a longer grace, and backfill the table."
    )
