"""Which tables can't be restored from their topic, and what to do instead; decided before Spark or Kafka is asked."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from lakehouse.errors import PlanError
from lakehouse.kafka.covers import Cover
from lakehouse.lake.layout import Layout
from lakehouse.plan.evolution.fingerprint import fingerprint_text, table_fingerprint
from lakehouse.plan.table import Table
from lakehouse.run.repair.restorable import check_declaration
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


def test_rows_that_another_declaration_computed_are_refused() -> None:
    """Also if order_by is in milliseconds, as an earlier release kept it: each row would be older than any new one."""
    table = ORDERS.latest("newest", order_by="rowtime")
    declared = table_fingerprint(table)

    def refusal(old_plan: dict[str, Any]) -> str:
        cover = Cover("id", "newest", "lake", 3, {}, declared=fingerprint_text(old_plan))
        try:
            check_declaration(cover, table, "topic")
        except PlanError as error:
            return str(error)
        return ""

    assert refusal(declared) == ""
    in_milliseconds = refusal({name: part for name, part in declared.items() if name != "order_unit"})
    assert "the order_by of its rows, of table 'newest', is in milliseconds; expected microseconds" in in_milliseconds
    assert "Build the table from bronze" in in_milliseconds
    assert "under another declaration" in refusal({**declared, "emit": "final"})
    with pytest.raises(PlanError, match="does not say under which declaration its rows were computed"):
        check_declaration(Cover("id", "newest", "lake", 3, {}), table, "topic")
    numbered = ORDERS.latest("newest", order_by="amount")
    assert "order_unit" not in json.dumps(table_fingerprint(numbered)), "a number has no unit"
