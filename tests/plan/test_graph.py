"""Tables that read tables, on the model: what the graph means."""

from __future__ import annotations

import pytest

import lakehouse as lh
from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import table_depth
from lakehouse.plan.evolution.change import change_of, declaration_properties, topics_of
from lakehouse.plan.lineage.clocks import placing_topics, shared_clocks
from lakehouse.run.explain.capture import capture
from lakehouse.testing import Replay

from ..graphs import APP, BIG, CUSTOMER, CUSTOMERS, DEEP, ORDERS, STEPS, TOTALS


def test_a_table_stands_behind_the_tables_that_it_reads() -> None:
    names = [table.name for table in APP.tables]
    assert names.index("totals") < names.index("steps") < names.index("deep")
    assert [table_depth(table) for table in (TOTALS, STEPS, DEEP)] == [0, 1, 2]
    assert DEEP.stream.tables == (TOTALS, STEPS)
    assert (DEEP.stream.topics, DEEP.stream.decodes) == (("orders",), ())


def test_a_table_over_a_table_counts_its_changes() -> None:
    replay = Replay(lh.app(STEPS, TOTALS.to_stream().latest("again")))
    for number, customer in enumerate("aabab"):
        replay.send("orders", key=str(number), value={"customer": customer, "amount": number}, timestamp=number)
    result = replay.run()
    assert result.row("steps", "a") == {"customer": "a", "n": 3, "most": 4}
    assert result.row("again", "b") == result.row("totals", "b") == {"customer": "b", "orders": 2, "total": 6}


def test_tables_follow_each_other_to_any_depth() -> None:
    """There was room for three: a record's number had 20 bits for each."""
    table = DEEP
    for name in ("fourth", "fifth"):
        table = table.to_stream().latest(name)
    replay = Replay(lh.app(table))
    for number, customer in enumerate("aab"):
        replay.send("orders", key=str(number), value={"customer": customer, "amount": 1}, timestamp=number)
    result = replay.run()
    assert result.rows("fifth") == result.rows("deep")
    assert len(result.rows("deep")) == 2


def test_a_table_that_is_read_may_begin_with_a_list() -> None:
    """The zero of a user's aggregate can be a value that has no hash."""
    numbers = lh.aggregate("amount", zero=[], add=lambda so_far, n: [*so_far, n], accumulator="array<bigint>")
    listed = ORDERS.group_by("customer").agg(all=numbers).table("listed")
    app = lh.app(listed.to_stream().latest("copy"), ORDERS.join(listed, on="customer", prefix="t_").latest("joined"))
    assert [table.name for table in app.tables] == ["listed", "copy", "joined"]
    replay = Replay(app)
    replay.send("orders", key="1", value={"customer": "a", "amount": 5}, timestamp=0)
    result = replay.run()
    assert (result.row("copy", "a")["all"], result.row("joined", "1")["t_all"]) == ([5], [5])


def test_a_delete_is_a_record_without_a_value() -> None:
    replay = Replay(lh.app(CUSTOMER, CUSTOMER.to_stream().latest("copy"), CUSTOMER.to_stream().group_by("city").agg(
        n=lh.count()).table("moves")))  # fmt: skip
    replay.send("customers", key="a", value={"city": "x"}, timestamp=0)
    replay.send("customers", key="a", value=None, timestamp=1)
    result = replay.run()
    assert result.rows("copy") == []
    assert result.row("moves", "x") == {"city": "x", "n": 1}, "a stream's count undoes nothing"


def test_a_join_looks_up_what_the_table_has_when_the_record_arrives() -> None:
    app = lh.app(
        ORDERS.join(CUSTOMER, on="customer").latest("inner_"), ORDERS.join(CUSTOMER, "customer", how="left").latest("l")
    )
    replay = Replay(app)
    replay.send("orders", key="1", value={"customer": "a", "amount": 1}, timestamp=10)
    replay.tick()
    replay.send("customers", key="a", value={"city": "x", "level": 1}, timestamp=5)  # an earlier time, a later arrival
    replay.send("orders", key="2", value={"customer": "a", "amount": 2}, timestamp=20)
    replay.send("customers", key="a", value=None, timestamp=30)
    replay.send("orders", key="3", value={"customer": "a", "amount": 3}, timestamp=40)
    replay.send("orders", key="4", value={"customer": None, "amount": 4}, timestamp=50)
    replay.send("orders", key="2", value=None, timestamp=60)
    result = replay.run()
    assert {row["id"]: row["city"] for row in result.rows("inner_")} == {"2": "x"}, "rule 2: a null value joins nothing"
    assert {row["id"]: row["city"] for row in result.rows("l")} == {"1": None, "2": "x", "3": None, "4": None}


def test_a_record_that_changes_the_table_finds_its_own_change() -> None:
    replay = Replay(lh.app(ORDERS.join(TOTALS, on="customer", prefix="t_").latest("share")))
    replay.send("orders", key="1", value={"customer": "a", "amount": 5}, timestamp=0)
    assert replay.run().row("share", "1")["t_total"] == 5


@pytest.mark.parametrize("on", ["coalesce(a, 7)", "if(a > 1, a, 7)", "nvl(a, b)"])
def test_a_chosen_int_is_an_int_and_meets_one(on: str) -> None:
    left = lh.stream("left", key="id string", schema="a int, b int")
    right = lh.stream("right", key="k int", schema="n int").latest("right_now")
    assert left.join(right, on=on).rekey(f"{on} AS c").columns[0].type == "int"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ORDERS.join(CUSTOMERS.group_by("city")), "join: found stream 'customers', grouped"),
        (lambda: ORDERS.join(CUSTOMER, on=("id", "customer")), "found 2 expressions"),
        (lambda: ORDERS.join(CUSTOMER, on="amount"), "they are never equal"),
        (lambda: ORDERS.join(CUSTOMER, on="customer", how="outer"), "expected 'inner' or 'left'"),
        (lambda: ORDERS.join(BIG.to_stream().latest("x"), on="nobody"), "nobody"),
        (lambda: ORDERS.join(ORDERS.latest("o")), 'prefix="o_"'),
        (
            lambda: ORDERS.join(ORDERS.group_by("id").window(lh.tumbling("1 hour")).agg(n=lh.count()).table("w")),
            "belong to windows",
        ),
    ],
)
def test_refused(make, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PlanError, match=says):
        make()


def test_the_properties_of_a_table_name_its_topics() -> None:
    joined = ORDERS.join(CUSTOMER, on="customer").latest("joined")
    assert topics_of(declaration_properties(joined)) == {"orders", "customers"}
    assert topics_of(declaration_properties(DEEP)) == {"orders"}
    assert "INNER JOIN TABLE customer ON customer" in lh.describe(joined)
    assert "CHANGES OF TABLE steps" in lh.describe(DEEP)
    assert lh.describe(DEEP).index("TABLE steps (") < lh.describe(DEEP).index("TABLE totals (")
    assert topics_of({}) is None, "another program wrote the table"


def test_a_capture_of_what_reads_tables_says_what_to_capture() -> None:
    for table in (STEPS, DEEP):
        with pytest.raises(NeedsSpark, match="Capture a key of totals, which reads only topics"):
            capture(Layout("/nowhere"), APP, "app:app", table, "a")


def test_a_changed_join_is_told() -> None:
    was = ORDERS.join(CUSTOMER, on="customer").latest("joined")
    now = ORDERS.join(CUSTOMER, on="customer", how="left").latest("joined")
    change = change_of(declaration_properties(was), now)
    assert (change.kind, change.reasons) == (
        "refold",
        ("how of the join with customer: found inner, declared left; its rows were computed the earlier way, so refold "
        "the table.",),
    )  # fmt: skip
    assert change_of(declaration_properties(was), was).kind == "same"
    assert (
        change_of(declaration_properties(STEPS), ORDERS.group_by("customer").agg(n=lh.count()).table("steps")).kind
        == "refold"
    )


def test_a_chain_of_tables_may_be_longer_than_functions_call_each_other() -> None:
    table = lh.stream("numbers", key="id string", schema="n bigint").latest("t0")
    for number in range(1, 400):
        table = table.select("n").table(f"t{number}")
    app = lh.app(table)
    assert [item.name for item in app.tables] == [f"t{number}" for number in range(400)]
    assert table_depth(table) == 399
    assert "TABLE t399" in lh.describe(app)
    assert "table t0 (rows)" in str(lh.lineage(app))
    replay = Replay(app)
    replay.send("numbers", key="a", value={"n": 1})
    assert replay.run().rows("t399") == [{"id": "a", "n": 1}]


def test_tables_that_are_joined_again_and_again_are_walked_once() -> None:
    """Each join reads the table before it in two ways: 2 to the power of 40 paths lead back to the topic."""
    table = lh.stream("numbers", key="id string", schema="n bigint").latest("t0")
    for number in range(1, 40):
        one = table.select(x="1").table(f"one{number}")
        table = table.select("n").table(f"n{number}").join(one).select("n").table(f"t{number}")
    app = lh.app(table)
    assert (len(app.tables), app.topics, table.stream.topics) == (1 + 3 * 39, ("numbers",), ("numbers",))
    assert table_depth(table) == 2 * 39
    assert (placing_topics(table.stream), shared_clocks(table.stream)) == ({"numbers"}, {})
