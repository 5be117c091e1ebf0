"""Deployments: twelve tables in four levels, a change in the first; all of them at one tick, and back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.semantics.moment import AtTick
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from tests.seeds import draw
from tests.spark.test_backfill import Bench, bench

__all__ = ["bench"]


def application(rate: str = "amount", bonus: str = "0") -> App:
    """Four levels over two topics. rate: the first level's logic. bonus: that of one table of the second level."""
    orders = lh.stream("orders", key="id string", schema="customer string, product string, amount bigint")
    names = lh.stream("names", key="customer string", schema="name string")
    # 1: of the topics
    priced = orders.select("customer", "product", amount=rate).latest("priced")
    customers = names.latest("customers")
    products = orders.rekey("product").group_by("product").agg(n=lh.count()).table("products")
    # 2: of tables of the first level
    by_customer = priced.group_by("customer").agg(n=lh.count(), total=lh.sum(f"amount + {bonus}")).table("by_customer")
    by_product = priced.group_by("product").agg(n=lh.count(), total=lh.sum("amount")).table("by_product")
    named = orders.join(customers, on="customer", how="left").select("name", "amount").latest("named")
    # 3: of the second
    sizes = by_customer.group_by("total").agg(n=lh.count()).table("sizes")
    joined = by_customer.join(customers, how="left").table("joined")
    reach = by_product.group_by("n").agg(products=lh.count()).table("reach")
    # 4: of the third
    spread = sizes.group_by("n").agg(totals=lh.count()).table("spread")
    by_name = joined.group_by("name").agg(total=lh.sum("total")).table("by_name")
    width = reach.group_by("products").agg(n=lh.count()).table("width")
    tables = (
        priced, customers, products, by_customer, by_product, named, sizes, joined, reach, spread, by_name, width,
    )  # fmt: skip
    return lh.app(*tables)


OLD, NEW = application(), application(rate="amount * 10")
TOUCHED = ["priced", "by_customer", "by_product", "sizes", "joined", "reach", "spread", "by_name", "width"]


def drawn_records(dice: random.Random, count: int, first: int, tick: int) -> list[Record]:
    """Records of both topics, four a tick, with deletes and names that change."""
    times = [1_000 * (first + n) for n in range(count)]
    made = []
    for n, (time, order) in enumerate(zip(times, order_times(times), strict=True)):
        customer = dice.choice(("ann", "bob", "cid"))
        if dice.random() < 0.3:
            topic, key = "names", customer
            value = None if dice.random() < 0.2 else f'{{"name": "{dice.choice("xyz")}"}}'
        else:
            topic, key = "orders", dice.choice("abcdef")
            body = f'"customer": "{customer}", "product": "{dice.choice("pq")}", "amount": {dice.randrange(9)}'
            value = None if dice.random() < 0.2 else f"{{{body}}}"
        offset = first + n
        raw = None if value is None else value.encode()
        made.append(Record(topic, topic, 0, offset, time, key.encode(), raw, n // 4 + tick, order))
    return made


def contents(bench: Bench, app: App, at: Any = None) -> dict[str, dict[Any, Any]]:
    return {table.name: bench.rows(table, at) for table in app.tables}


def expected(app: App, records: list[Record]) -> dict[str, dict[Any, Any]]:
    tables = model.run(app, records, decode_record).tables
    return {table.name: dict(tables[table.name]) for table in app.tables}


@pytest.mark.slow
def test_tables_of_four_levels_change_at_one_tick_and_go_back(bench: Bench) -> None:
    from lakehouse.plan.evolution.change import declaration_of
    from lakehouse.run.deploy.deployment import check_way_back, compare_deployment, plan_deployment
    from lakehouse.run.repair.carry_out import carry_out
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.bronze.interventions import InterventionRequest

    dice = random.Random(draw())
    records = drawn_records(dice, 24, 0, 1)
    assert bench.write(records) == 6
    bench.catch_up(OLD)
    assert contents(bench, OLD) == expected(OLD, records)
    with pytest.raises(PlanError, match="needs a refold"):
        bench.catch_up(NEW)
    with pytest.raises(NotFound, match="nothing is built for these declarations"):
        compare_deployment(bench.lake, NEW, "blue", 0)

    plan = plan_deployment(bench.lake, NEW, "blue", examples=3)
    assert list(plan.expected.differing) == TOUCHED
    assert contents(bench, OLD) == expected(OLD, records), "the live tables are as they were"
    # The job goes on meanwhile: what is staged catches up.
    more = drawn_records(dice, 8, 24, 7)
    assert bench.write(more) == 8
    bench.catch_up(OLD)
    old = expected(OLD, records + more)
    assert contents(bench, OLD) == old
    plan = plan_deployment(bench.lake, NEW, "blue", examples=3)
    new = expected(NEW, records + more)
    for name, difference in plan.expected.differing.items():
        keys = old[name].keys() | new[name].keys()
        assert difference.keys == sum(old[name].get(key) != new[name].get(key) for key in keys), name
        assert difference.counts() == compare_deployment(bench.lake, NEW, "blue", 0)[name].counts()
    # Records that only bronze has when it is promoted.
    last = drawn_records(dice, 4, 32, 9)
    assert bench.write(last) == 9
    done = carry_out(bench.lake, NEW, plan)
    assert (done.tick, done.before) == (10, 9)
    new = expected(NEW, records + more + last)
    assert contents(bench, NEW) == {**new, **{name: old[name] for name in ("customers", "products", "named")}}
    bench.catch_up(NEW)
    assert contents(bench, NEW) == contents(bench, NEW, AtTick(10)) == new
    assert contents(bench, OLD, AtTick(8)) == old, "one tick has all of the old, another all of the new"
    for table in NEW.tables:
        assert bench.folded(table, 10) == new[table.name], table.name
    assert not Path(bench.layout.root, "beside", "deploy-blue").exists()
    assert plan_deployment(bench.lake, NEW, "blue").stages == ()

    with pytest.raises(PlanError, match="otherwise than before their deployment: priced, by_customer"):
        check_way_back(bench.lake, application(rate="amount * 10", bonus="1"))
    with pytest.raises(PlanError, match="otherwise than before their deployment: priced"):
        check_way_back(bench.lake, NEW)
    check_way_back(bench.lake, OLD)
    records += more + last + drawn_records(dice, 4, 36, 11)
    assert bench.write(records[-4:]) == 11
    bench.catch_up(NEW)
    assert contents(bench, NEW) == expected(NEW, records)
    back = carry_out(bench.lake, OLD, plan_deployment(bench.lake, OLD, "back"))
    assert (back.tick, list(back.differing)) == (12, TOUCHED)
    bench.catch_up(OLD)
    assert contents(bench, OLD) == expected(OLD, records)
    assert contents(bench, NEW, AtTick(11)) == expected(NEW, records)
    assert contents(bench, NEW, AtTick(10)) == new
    assert contents(bench, OLD, AtTick(8)) == old
    for table in OLD.tables:
        assert bench.folded(table, 12) == expected(OLD, records)[table.name], table.name

    # What was swapped since, as by a backfill or an erasure, is no deployment to take back.
    details = {"priced": {"declaration": declaration_of(OLD.table("priced")), "changed": False}}
    swap = InterventionRequest("swap", ("priced",), {"beside": "priced"}, table_details=details)
    interventions.record_intervention(bench.lake, interventions.take_over_bronze(bench.lake), swap)
    check_way_back(bench.lake, NEW)
    with pytest.raises(PlanError, match="otherwise than before their deployment: priced"):
        check_way_back(bench.lake, OLD)


@pytest.mark.rotated
def test_back_is_about_the_last_deployment_alone(bench: Bench) -> None:
    """Each table had its own deployment, one after the other: the last one's goes back, and the other stays."""
    from lakehouse.plan.evolution.change import declaration_of
    from lakehouse.run.deploy.deployment import check_way_back
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.bronze.interventions import InterventionRequest

    def shop(first: str, second: str) -> App:
        orders = lh.stream("orders", key="id string", schema="customer string, product string, amount bigint")
        return lh.app(orders.filter(first).latest("first"), orders.filter(second).latest("second"))

    before, now = shop("amount > 0", "amount > 0"), shop("amount > 1", "amount > 1")
    order = Record("orders", "orders", 0, 0, 0, b"a", b'{"amount": 5}', 1, 0)
    bench.write([order])
    bench.catch_up(now)
    with pytest.raises(PlanError, match="found no deployment"):
        check_way_back(bench.lake, before)
    for name in ("first", "second"):
        details = {name: {"declaration": declaration_of(now.table(name)), "changed": True}}
        details[name]["before"] = declaration_of(before.table(name))
        swap = InterventionRequest("swap", (name,), {"beside": "deploy-next"}, table_details=details)
        interventions.record_intervention(bench.lake, interventions.take_over_bronze(bench.lake), swap)
    check_way_back(bench.lake, shop("amount > 1", "amount > 0"))
    with pytest.raises(PlanError, match=r"at tick 3, did not touch first, declared otherwise than in the lake"):
        check_way_back(bench.lake, before)
    with pytest.raises(PlanError, match="otherwise than before their deployment: second"):
        check_way_back(bench.lake, now)


@pytest.mark.slow
def test_a_table_that_the_lake_lacks_is_built_with_those_that_read_it(bench: Bench) -> None:
    """The table is not swapped, for there is none: the next run builds it, and it agrees with what read it before."""
    from lakehouse.run.deploy.deployment import plan_deployment
    from lakehouse.run.repair.carry_out import carry_out

    orders = lh.stream("orders", key="id string", schema="customer string, product string, amount bigint")
    names = lh.stream("names", key="customer string", schema="name string")
    counted = orders.rekey("customer").group_by("customer").agg(n=lh.count()).table("counted")
    old = lh.app(counted, names.filter("name IS NOT NULL").latest("other"))
    known = names.latest("known")
    joined = orders.join(known, on="customer", how="left").filter("name <> 'z'").group_by("customer")
    new = lh.app(joined.agg(n=lh.count()).table("counted"), names.filter("name IS NOT NULL").latest("other"))
    records = drawn_records(random.Random(draw()), 16, 0, 1)
    assert bench.write(records) == 4
    bench.catch_up(old)
    done = carry_out(bench.lake, new, plan_deployment(bench.lake, new, "next"))
    assert list(done.differing) == ["counted"]
    assert not bench.lake.open(known).table_exists()
    assert bench.rows(new.table("counted")) == expected(new, records)["counted"]
    more = drawn_records(random.Random(draw() + 1), 8, 16, 6)
    assert bench.write(more) == 7
    bench.catch_up(new)
    assert contents(bench, new) == expected(new, records + more)
    assert bench.folded(new.table("counted"), 7) == expected(new, records + more)["counted"]
