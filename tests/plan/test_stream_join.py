"""Joins of two streams, and of a stream with a table as of an event time: what may be declared, and what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.evolution.change import change_of, declaration_properties, topics_of
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin, meeting_streams
from lakehouse.semantics.operators.stream_join import JoinWindow

from ..graphs import BIG, CUSTOMER, ORDERS, TOTALS

PAID = lh.stream("payments", key="id string", schema="paid bigint")
MINUTE = 60_000
DAY = 24 * 60 * MINUTE


def within(stream: Stream) -> JoinWindow:
    assert isinstance(stream.source, StreamJoin)
    return stream.source.within


def test_the_window() -> None:
    assert within(ORDERS.join(PAID, within="1 minute")) == JoinWindow(MINUTE, MINUTE, DAY - 2 * MINUTE, eager=True)
    assert within(ORDERS.join(PAID, after="1 minute", grace="1 hour")) == JoinWindow(0, MINUTE, 60 * MINUTE)
    assert within(ORDERS.join(PAID, before="1 minute", grace="0 minutes")) == JoinWindow(MINUTE, 0, 0)
    assert within(ORDERS.join(PAID, within="2 days")).grace == 0
    assert within(ORDERS.join(PAID, within="0 minutes")).before == 0


def test_the_columns_that_come_out() -> None:
    joined = ORDERS.join(PAID, within="1 minute", prefix="p_")
    assert [column.name for column in joined.columns] == ["id", "customer", "amount", "tags", "p_paid"]
    assert joined.key == ("id",)
    by_customer = ORDERS.join(PAID, on="customer", within="1 minute")
    assert (by_customer.key, "id" in by_customer.shape.values) == (("customer",), True)
    assert meeting_streams(by_customer.filter("paid > 1").merge(by_customer)) == 2 * by_customer.source.parts


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ORDERS.join(PAID), "never end, so it needs a time within which their records meet"),
        (lambda: ORDERS.join(PAID, grace="1 hour"), "never end"),
        (lambda: ORDERS.join(PAID, within="1 hour", before="1 hour"), "within is both"),
        (lambda: ORDERS.join(PAID, within="an hour"), "expected a duration"),
        (lambda: ORDERS.join(PAID, within="1 hour", how="full"), "'inner', 'left', 'right' or 'outer'"),  # type: ignore[arg-type]
        (lambda: ORDERS.join(PAID, on="amount", within="1 hour"), "they are never equal"),
        (lambda: ORDERS.join(PAID, on=("id", "customer"), within="1 hour"), "of different numbers of columns"),
        (lambda: ORDERS.join(ORDERS, within="1 hour"), 'prefix="orders_"'),
        (lambda: ORDERS.join(PAID, within="1 hour", as_of="event time"), "are for tables"),
        (lambda: ORDERS.join(PAID, within="1 hour", broadcast=True), "are for tables"),
        (lambda: ORDERS.join(PAID, within="1 hour", indicator="found"), "are for tables"),
        (lambda: ORDERS.join(CUSTOMER, on="customer", indicator="amount"), "are the same name"),
        (lambda: ORDERS.join(CUSTOMER, on="customer", indicator="_found"), "indicator '_found': expected a letter"),
        (lambda: ORDERS.join(CUSTOMER, on="customer", within="1 hour"), "are for joins of two streams"),
        (lambda: ORDERS.join(CUSTOMER, on="customer", how="outer"), "expected 'inner' or 'left'"),
        (lambda: ORDERS.join(CUSTOMER, on="customer", as_of="yesterday"), "'arrival' or 'event time'"),  # type: ignore[arg-type]
        (lambda: ORDERS.join(TOTALS, on="customer", as_of="event time", prefix="t_"), "needs a table of latest"),
        (lambda: ORDERS.join(BIG, on="customer", as_of="event time"), "needs a table of latest"),
        (
            lambda: ORDERS.join(ORDERS.latest("o", suppress=True), prefix="o_", as_of="event time"),
            "needs a table of latest",
        ),
        (lambda: ORDERS.join(CUSTOMER, on="customer", as_of="event time", broadcast=True), "and no broadcast"),
    ],
)
def test_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        make()


def test_the_plans_text_and_its_topics() -> None:
    joined = ORDERS.join(PAID, how="left", after="1 minute", grace="2 minutes").join(CUSTOMER, "customer", how="left")
    table = joined.latest("joined")
    assert "LEFT JOIN STREAMS ON id = id WITHIN (BEFORE 0 MS, AFTER 60000 MS, GRACE 120000 MS)" in lh.describe(table)
    assert topics_of(declaration_properties(table)) == {"orders", "payments", "customers"}
    text = lh.describe(ORDERS.join(CUSTOMER, on="customer", as_of="event time"))
    assert "INNER JOIN TABLE customer ON customer AS OF EVENT TIME" in text
    assert "ON customer BROADCAST" in lh.describe(ORDERS.join(CUSTOMER, on="customer", broadcast=True))


def test_a_changed_join_is_told() -> None:
    was = ORDERS.join(PAID, within="1 minute", how="left").latest("joined")

    def said(now: Stream) -> tuple[str, str]:
        change = change_of(declaration_properties(was), now.latest("joined"))
        return change.kind, " ".join(change.reasons)

    assert said(ORDERS.join(PAID, within="1 minute", how="left")) == ("same", "")
    kind, text = said(ORDERS.join(PAID, within="1 minute"))
    assert (kind, "how of the join of orders + payments: found left, declared inner" in text) == ("refold", True)
    kind, text = said(ORDERS.join(PAID, within="1 minute", grace="5 minutes", how="left"))
    assert (kind, "declared before 60000 ms, after 60000 ms, grace 300000 ms, unmatched when it closes" in text) == (
        "refold", True,
    )  # fmt: skip
    assert said(ORDERS.merge(ORDERS).join(PAID, within="1 minute", how="left"))[0] == "refold"
    assert said(ORDERS)[0] == "refold"
    read = ORDERS.filter("amount > 1").join(PAID, within="1 minute", how="left")
    assert "steps of stream orders" in said(read)[1]


def test_what_nothing_reads_of_the_other_stream_decides_nothing() -> None:
    wider = lh.stream("payments", key="id string", schema="paid bigint, note string")
    was, now = (
        ORDERS.join(other, within="1 minute").group_by("customer").agg(n=lh.sum("paid")).table("t")
        for other in (PAID, wider)
    )
    assert change_of(declaration_properties(was), now).kind == "compatible"


def test_as_of_is_a_part_of_the_fingerprint_and_broadcast_is_not() -> None:
    was = ORDERS.join(CUSTOMER, on="customer").latest("joined")
    everywhere = ORDERS.join(CUSTOMER, on="customer", broadcast=True).latest("joined")
    assert change_of(declaration_properties(was), everywhere).kind == "same"
    change = change_of(
        declaration_properties(was), ORDERS.join(CUSTOMER, on="customer", as_of="event time").latest("joined")
    )
    assert change.kind == "refold"
    assert "as_of of the join with customer: found arrival, declared event time" in change.reasons[0]
    assert isinstance(everywhere.stream.source, TableJoin)


def test_an_indicator_that_is_not_read_makes_no_difference() -> None:
    was = ORDERS.join(CUSTOMER, on="customer", how="left").select("city")
    said = ORDERS.join(CUSTOMER, on="customer", how="left", indicator="found")
    assert said.columns[-1] == Column("found", "string")
    assert change_of(declaration_properties(was.latest("j")), said.select("city").latest("j")).kind == "same"
    assert change_of(declaration_properties(was.latest("j")), said.select("city", "found").latest("j")).kind == "refold"
    other = said.select("found AS city").latest("j")
    renamed = ORDERS.join(CUSTOMER, on="customer", how="left", indicator="sides").select("sides AS city").latest("j")
    assert change_of(declaration_properties(other), renamed).kind == "refold"
