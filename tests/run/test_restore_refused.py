"""Which tables can't be restored from their topic, and what to do instead; decided before Spark or Kafka is asked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lakehouse.errors import PlanError
from lakehouse.lake.layout import Layout
from lakehouse.plan.table import Table
from lakehouse.run.repair.restore import Published, restore
from lakehouse.spark.open_lake import OpenLake

from ..graphs import CITIES, DEEP, STEPS


@pytest.mark.parametrize(
    ("table", "above", "first"),
    [(CITIES, "customer", "customer"), (STEPS, "totals", "totals"), (DEEP, "totals, steps", "totals")],
)
def test_a_table_that_reads_tables_names_those_that_can_be_restored(table: Table, above: str, first: str) -> None:
    lake = OpenLake(cast(Any, None), Layout("/nowhere"))
    with pytest.raises(PlanError) as refused:
        restore(lake.open(table), Published("topic", "nowhere:1", {}))
    assert str(refused.value).startswith(
        f"table {table.name!r} is made from {above}: what it had read there is in no changelog. Restore {first}, and "
        "run the application: it builds the others from what their topics still have."
    )
