"""Late correction, asked for: late records of closed windows are taken in after all, as an intervention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.delta import bronze, interventions, late, tables
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.delta.silver import own_topics
from lakehouse.delta.silver_query import Silver
from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.window import Hopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Corrected:
    """What a correction did: its tick, and how many late records it took in. `tick` is None after a dry run."""

    tick: int | None
    records: int


def correct(
    spark: SparkSession,
    layout: Layout,
    app: App,
    table: Table,
    *,
    key: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    reason: str = "",
    dry_run: bool = False,
) -> Corrected:
    """Take late records of a windowed table in after all; its next version holds them.

    key: of one key only, by its text; columns of a key of several are joined by commas. start, end: of windows that
    begin in [start, end). A record is taken in as a whole, for all windows that it was late for. Raises PlanError for a
    table that can't be corrected, NotFound when no such record is late, LeaseHeld while a job writes the table or
    bronze.
    """
    if not isinstance(table.window, Hopping):
        raise PlanError(
            f"table {table.name!r} has no tumbling or hopping windows, which alone can be corrected. For others, "
            "declare the table anew with a longer grace, under another name: it is built from bronze."
        )
    if not tables.exists(spark, layout.late(table.name)):
        raise NotFound(f"table {table.name!r} has no late records.")
    chosen = late.chosen(spark, layout, table, key, start, end)
    if (done := interventions.corrected(spark, layout, table.name, bronze.EVER)) is not None:
        chosen = chosen.join(done, list(late.PLACE), "left_anti")
    records = chosen.select(*late.PLACE).distinct().persist()
    try:
        if (count := records.count()) == 0:
            raise NotFound(
                f"table {table.name!r} has no late record that fits and was not taken in yet. "
                f"`lakehouse late {table.name}` lists them."
            )
        if dry_run:
            return Corrected(None, count)
        with (
            Lease(layout.lease("ingest"), "bronze"),
            Lease(layout.lease(f"silver-{table.name}"), f"table {table.name!r}"),
        ):
            state = bronze.take_over(spark, layout, own_topics(app))
            tick = bronze.append_empty_tick(spark, layout, state, "intervention")
            interventions.write(spark, layout, table.name, records, tick, reason)
    finally:
        records.unpersist()
    alone = App((table,), (), table.stream.sources)
    with Silver(spark, layout, alone, lambda tick, records: None) as silver:
        silver.catch_up(tick)
    return Corrected(tick, count)
