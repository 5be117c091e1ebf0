"""Streams become tables, and tables streams, as deep as wanted: the same rows and the same changes at every step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.record import Record

from ..changelogs import apply
from ..rows import ALL, CHAIN, HIGH, OUTER, REFERRING, SUMS, A, B, histories, records_of
from ..rows_meeting import ARRIVALS

DEPTH = 6
COUNTS = ARRIVALS.group_by("g").agg(n=lh.count()).table("counts")


@pytest.mark.parametrize("table", [A, COUNTS, HIGH, ALL, SUMS, OUTER, REFERRING, CHAIN], ids=lambda table: table.name)
@given(history=histories(), ticks=st.lists(st.integers(1, 6), max_size=20))
def test_a_table_of_a_tables_changes_is_that_table_again(table: lh.Table, history: Any, ticks: list[int]) -> None:
    last = table
    for number in range(DEPTH):
        last = last.to_stream().latest(f"copy{number}")
    result = model.run(lh.app(last), records_of(history, ticks), decode_record)
    changes = [(change.key, change.value, change.timestamp) for change in result.changelogs[table.name]]
    assert apply(result.changelogs[table.name]) == result.tables[table.name]
    for number in range(DEPTH):
        name = f"copy{number}"
        assert result.tables[name] == result.tables[table.name], name
        assert [(of.key, of.value, of.timestamp) for of in result.changelogs[name]] == changes, name


PUBLISHED = {
    A: lh.stream("published", key="k string", schema="g string, n bigint, `to` string"),
    COUNTS: lh.stream("published", key="g string", schema="n bigint"),
    SUMS: lh.stream("published", key="g string", schema="rows bigint, total bigint"),
    REFERRING: lh.stream("published", key="k string", schema="g string, n bigint, `to` string, b_g string, b_n bigint"),
    CHAIN: lh.stream("published", key="b_g string", schema="rows bigint, total bigint"),
}


@pytest.mark.parametrize("table", PUBLISHED, ids=lambda table: table.name)
@given(history=histories())
def test_a_table_over_a_published_changelog_is_the_table_that_published_it(table: lh.Table, history: Any) -> None:
    """And so are the tables made of it: who reads the topic need not know how it came to be."""
    records = records_of(history)
    other = B.join(A, how="left", prefix="a_").table("other")
    result = model.run(lh.app(table.changes().to_topic("published"), other), records, decode_record)
    sent = [
        Record(
            "published", "replay-published", 0, offset, change.timestamp, str((change.key or ("",))[0]).encode(),
            None if change.value is None else json.dumps(change.value).encode(), offset + 1, offset,
        )
        for offset, change in enumerate(result.topics["published"])
    ]  # fmt: skip
    again = PUBLISHED[table].latest("again")
    total = again.group_by("1 AS one").agg(rows=lh.count()).having("rows > 0").table("total")
    read = model.run(lh.app(again, total), sent, decode_record)
    assert read.tables["again"] == result.tables[table.name]
    rows = len(result.tables[table.name])
    assert [row["rows"] for row in read.tables["total"].values()] == ([rows] if rows else [])
