"""Which tables can't be restored from their topic, and what to do instead; decided before Spark or Kafka is asked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lakehouse.errors import PlanError
from lakehouse.lake.layout import Layout
from lakehouse.plan.table import Table
from lakehouse.run.repair.restore import Published, restore
from lakehouse.spark.changelog.upstream import open_lake

from ..graphs import LATEST, ORDERS
from ..stream_joins import TWICE

THEN = ORDERS.join(LATEST, on="customer", as_of="event time", prefix="of_").latest("then")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (TWICE.latest("twice"), "table 'twice' is made from a join of streams after customer was looked up"),
        (THEN, "table 'then' looks up what latest_total was at earlier times: no changelog has all of that, and not"),
    ],
    ids=["looked up", "as of"],
)
def test_a_table_of_which_the_changelog_does_not_have_all_is_refused(table: Table, says: str) -> None:
    lake = open_lake(cast(Any, None), Layout("/nowhere"))
    with pytest.raises(PlanError) as refused:
        restore(lake.open(table), Published("topic", "nowhere:1", {}))
    assert str(refused.value).startswith(says)
    assert "Build it from bronze" in str(refused.value)
