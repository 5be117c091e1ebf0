"""New logic for a table that is behind: no version, and no change, mixes rows of the old and the new declaration."""

from __future__ import annotations

from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound, StorageError
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import AtTick
from tests.spark.test_backfill import ALONE, MEANS, SUMS, Bench, bench, expected, history

__all__ = ["bench"]
NEW = lh.app(MEANS)
DOUBLED = (
    lh.stream("events", key="id string", schema="n bigint").select(id="id", n="n * 2").group_by("id")
    .agg(n=lh.count(), total=lh.sum("n")).table("sums")
)  # fmt: skip


def changes(bench: Bench, table: Any, after_tick: int, to_tick: int) -> list[tuple[str, int, int]]:
    from lakehouse.spark.changelog import changefeed

    rows = changefeed.per_event(bench.lake.open(table), after_tick, to_tick).collect()
    return [(row["id"], row["total"], row["_position"]["tick"]) for row in rows]


@pytest.mark.rotated
@pytest.mark.parametrize(("table", "app"), [(MEANS, NEW), (DOUBLED, lh.app(DOUBLED))], ids=["column", "values"])
def test_records_that_the_old_logic_never_took_in_are_not_folded_into_its_rows(
    bench: Bench, table: Any, app: App
) -> None:
    from lakehouse.run.repair.backfill import backfill
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.bronze.interventions import InterventionRequest

    records, more = history("abab"), history("abab", 4, 3)
    assert bench.write(records) == 2
    bench.catch_up(ALONE)
    before = bench.rows(SUMS)
    assert bench.write(more) == 4, "ingest goes on, and the job that keeps the table is stopped"
    # Somebody had decided on a repair before, and the table has not come to its tick.
    repair = InterventionRequest("refold", ("sums",), {"first_ms": 0, "last_ms": 10}, "a range")
    assert interventions.record_intervention(bench.lake, interventions.take_over_bronze(bench.lake), repair).tick == 5
    swapped = backfill(bench.lake.open(table), app)
    assert swapped.tick == 6
    after = expected(app, records + more, "sums")
    assert bench.rows(table) == bench.folded(table, 6) == after
    at_two = {key: {name: row[name] for name in ("n", "total")} for key, row in bench.rows(table, AtTick(2)).items()}
    assert at_two == before, "the last tick of the old logic"
    for tick in (3, 4, 5):
        with pytest.raises(NotFound, match="had another declaration until tick 6"):
            bench.rows(table, AtTick(tick))
    # One step for who has the changes up to tick 2; no step holds old rows with new records in them.
    totals = [(key[0], row["total"], 6) for key, row in sorted(after.items())]
    assert sorted(changes(bench, table, 2, 6)) == totals
    for span in ((1, 2), (2, 4), (1, 4), (1, 5)):
        with pytest.raises(NotFound, match="had another declaration until tick 6"):
            changes(bench, table, *span)
    # From the first tick on, the changes are those of the present logic, and lead to its rows.
    whole = changes(bench, table, 0, 6)
    assert {(key,): total for key, total, _ in whole} == {key: row["total"] for key, row in after.items()}
    assert [tick for _, _, tick in whole] == [1, 1, 2, 2, 3, 3, 4, 4]
    last = history("a", 8, 7)
    assert bench.write(last) == 7
    bench.catch_up(app)
    assert bench.rows(table) == bench.folded(table, 7) == expected(app, records + more + last, "sums")


@pytest.mark.slow
def test_what_was_built_over_earlier_logic_is_not_swapped_in(bench: Bench) -> None:
    """A table over a table: its build, and the plan of it, are from before the table above got other logic."""
    from lakehouse.run.repair.backfill import backfill, build, plan_backfill
    from lakehouse.run.repair.carry_out import carry_out

    def over(rows: Table, name: str) -> Table:
        return rows.group_by("total").agg(keys=lh.count()).table(name)

    below, other_below = over(SUMS, "below"), over(SUMS, "other_below")
    new_below, new_other_below = over(DOUBLED, "below"), over(DOUBLED, "other_below")
    app, new = lh.app(SUMS, below, other_below), lh.app(DOUBLED, new_below, new_other_below)
    records, more = history("abab"), history("abab", 4, 3)
    last = bench.write(records + more)
    bench.catch_up(app)
    build(bench.lake.open(below), "below", end_tick=2)
    bench.spark.sql(f"UPDATE delta.`{bench.layout.silver('other_below')}` SET keys = 99")
    early_plan = plan_backfill(bench.lake.open(other_below))
    assert backfill(bench.lake.open(DOUBLED), new).tick == last + 1
    bench.catch_up(new)
    with pytest.raises(StorageError, match="reads sums, which got other logic after this repair was planned"):
        carry_out(bench.lake, new, early_plan)
    for table in (new_below, new_other_below):
        backfill(bench.lake.open(table), new)
        bench.catch_up(new)
        rows = {key: row["keys"] for key, row in expected(new, records + more, table.name).items() if row["keys"]}
        assert {key: row["keys"] for key, row in bench.rows(table).items() if row["keys"]} == rows, table.name
