"""Which tables can't be restored from their topic, and what to do instead; decided before Spark or Kafka is asked."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from lakehouse.errors import NotFound, PlanError
from lakehouse.kafka.covers import Cover, NextOffsets
from lakehouse.lake.layout import Layout
from lakehouse.plan.evolution.fingerprint import fingerprint_text, table_fingerprint
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.table import Table
from lakehouse.run.repair.restorable import check_declaration, lost_after
from lakehouse.run.repair.restore import Published, restore
from lakehouse.run.repair.restored_rows import _refuse_unclear
from lakehouse.spark.bronze.gaps import KafkaTopic
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


def test_records_after_a_changelog_that_kafka_has_no_more_are_found() -> None:
    """A restore went on behind them in silence: 10 of 15 records were counted."""

    def lost(kafka_topics: dict[str, KafkaTopic], covered: NextOffsets) -> list[tuple[Any, ...]]:
        gaps = lost_after(covered, ("a", "b"), kafka_topics)
        return [(gap.topic, gap.topic_id, gap.partition, gap.from_offset, gap.to_offset) for gap in gaps]

    covered = {"id-a": {"0": 5, "1": 7}, "id-b": {"0": 3}, "earlier": {"0": 9}}
    a, b = KafkaTopic("id-a", {0: (5, 9), 1: (0, 7), 2: (0, 4)}), KafkaTopic("id-b", {0: (3, 3)})
    assert lost({"a": a, "b": b}, covered) == []  # the earlier topic's successor is covered
    assert lost({"a": a}, {"id-a": covered["id-a"]}) == []  # nothing of b was taken in
    grown = KafkaTopic("id-a", {0: (6, 9), 1: (9, 9), 2: (2, 4)})
    assert lost({"a": grown, "b": b}, covered) == [
        ("a", "id-a", 0, 5, 6),
        ("a", "id-a", 1, 7, 9),
        ("a", "id-a", 2, 0, 2),
    ]
    old_ids = [("b", "earlier", 0, 9, None), ("b", "id-b", 0, 3, None)]
    assert lost({"a": a, "b": KafkaTopic("new", {0: (0, 1)})}, covered) == lost({"a": a}, covered) == old_ids
    assert lost({}, {"id-b": {"0": 3}}) == [("a or b", "id-b", 0, 3, None)]


def test_a_row_that_its_format_does_not_tell_from_another_is_refused() -> None:
    """An empty text came back as a null, and a row whose only value is null did not come back at all."""
    columns = (Column("word", "string"), Column("n", "bigint"), Column("tags", "array<string>"))
    whole = {"word": "x", "n": None, "tags": None}
    for format in ("json", "avro", "delimited", "delimited|", "protobuf"):
        _refuse_unclear("out/0@7", format, columns, whole)
    _refuse_unclear("out/0@7", "json", columns, {"word": None, "n": 1, "tags": []})
    with pytest.raises(
        NotFound, match=r"record out/0@7 is in the format delimited\|, and its column word is a null or"
    ):
        _refuse_unclear("out/0@7", "delimited|", columns, {**whole, "word": None})
    nested = (Column("of", "struct<tags:array<string>>"),)
    for row in ({**whole, "tags": []}, {**whole, "of": {"tags": []}}):
        with pytest.raises(NotFound, match=r"is a null or an empty array or map: .*another format \(json, avro\)"):
            _refuse_unclear("out/0@7", "protobuf_nosr?x", (*columns, *nested), row)


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
