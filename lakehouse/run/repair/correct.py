"""Late correction: on request, late records of closed windows are taken in after all, as an intervention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.in_effect import in_effect
from lakehouse.plan.app import App
from lakehouse.plan.stream_join import meetings, reads_one_join
from lakehouse.run.repair.intervene import UNSAID, Why, intervene
from lakehouse.semantics.epoch import EVER
from lakehouse.spark.bronze import interventions
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.past import refold
from lakehouse.spark.table import late


@dataclass(frozen=True, slots=True)
class Corrected:
    """The result of a correction: its tick, and how many late records it took in. `tick` is None after a dry run.

    out_of_reach: late records that were asked for too, and can't be taken in: too late for a join behind another one.
    """

    tick: int | None
    records: int
    out_of_reach: int = 0


def correct(
    opened: OpenTable,
    app: App,
    *,
    key: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    why: Why = UNSAID,
    dry_run: bool = False,
) -> Corrected:
    """Take late records of a windowed table in after all; its next version holds them.

    key: only that key's records, by its text, see `lakehouse.formats.key_text`. start, end: only of windows that begin
    in [start, end). A record is taken in as a whole, for all windows that it was late for. Raises PlanError for a table
    without windows, NotFound if no such record is late. A running job goes on; it applies the correction.
    """
    table = opened.table
    if not table.windows and not meetings(table.stream):
        raise PlanError(
            f"table {table.name!r} has no windows, and reads no join of streams: only what came too late for one "
            "of them can be taken in."
        )
    if not opened.lake.exists(opened.late):
        raise NotFound(f"table {table.name!r} has no late records.")
    chosen = late.chosen(opened, key, start, end)
    out_of_reach = 0
    if not reads_one_join(table.stream):
        joined, chosen = chosen.where("join_name IS NOT NULL"), chosen.where("join_name IS NULL")
        if (first := joined.first()) is not None and chosen.isEmpty():
            raise PlanError(_out_of_reach(table.name, first["join_name"]))
        out_of_reach = joined.select(*late.PLACE).distinct().count()
    # A correction that was reverted can be made again.
    earlier = [at for at in in_effect(interventions.of(opened.lake, table.name), EVER) if at.kind == "late"]
    if (done := interventions.records(opened.lake, earlier)) is not None:
        chosen = chosen.join(done.select(*late.PLACE), list(late.PLACE), "left_anti")
    records = chosen.select(*late.PLACE).distinct().persist()
    try:
        if (count := records.count()) == 0:
            raise NotFound(
                f"table {table.name!r} has no late record that fits and was not taken in yet. "
                f"`lakehouse look late {table.name}` lists them."
            )
        refold.check_beginning(opened)  # a restored table: the rows to fold onto must exist
        if dry_run:
            return Corrected(None, count, out_of_reach)
        number = interventions.keep_records(opened.lake, records)
    finally:
        records.unpersist()
    wanted = why.wanted("late", [table.name], {}, number)
    return Corrected(intervene(opened.lake, app, wanted), count, out_of_reach)


def _out_of_reach(table: str, join: str) -> str:
    return (
        f"table {table!r}: these records came too late for the join {join}, and what comes out of it goes through "
        "another join, or a merge, before it reaches the table: there it would be too late again. `lakehouse look late "
        f"{table}` has their bytes. Declare the join with a longer grace, and backfill the table."
    )
