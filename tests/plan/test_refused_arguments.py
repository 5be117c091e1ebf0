"""What is no expression, no type, no switch and no function is refused where it is declared, not in a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.testing import Replay

ORDERS: Any = lh.stream(
    "orders", key="id string", schema="city string, amount bigint, price double, at timestamp, tags array<string>"
)
LAST: Any = ORDERS.latest("last")
NAMES: Any = lh.stream("names", key="city string", schema="country string").latest("names")
GROUPED: Any = ORDERS.group_by("city")
COUNTED: Any = GROUPED.agg(n=lh.count())
L: Any = lh


def custom(**changed: Any) -> Callable[[], object]:
    """A user-defined aggregate, with some of its arguments changed."""
    arguments = {"zero": 0, "add": max, "accumulator": "bigint"} | changed
    return lambda: L.aggregate("amount", **arguments)


REFUSED: list[tuple[Callable[[], object], str]] = [
    # columns of aggregates
    *[
        (partial(getattr(lh, name), None), rf'^{name}: found None, expected a column .*: lh\.{name}\("amount"\)')
        for name in (
            "sum", "avg", "min", "max", "latest", "earliest", "only", "count_distinct", "collect_list", "collect_set",
            "stddev", "variance", "histogram",
        )
    ],
    (lambda: L.top_k(None, 3), "^top_k: found None, expected a column"),
    (lambda: L.latest(None, 3), "^latest: found None, expected a column"),
    (lambda: L.reduce(None, max), "^reduce: found None, expected a column"),
    (lambda: L.aggregate(None, zero=0, add=max, accumulator="bigint"), "^aggregate: found None, expected a column"),
    (lambda: L.top_k("amount", 3, by=1), "top_k: by=1: expected the name of a field"),
    # functions
    (lambda: L.reduce("amount", "max"), "reduce: function='max': expected a Python function"),
    (custom(add=1), "aggregate: add=1: expected a Python function"),
    (custom(result="n", returns="bigint"), "aggregate: result='n': expected a Python function"),
    (custom(merge=1), "aggregate: merge=1: expected a Python function"),
    (custom(undo="sub"), "aggregate: undo='sub': expected a Python function"),
    # a type is one type
    (custom(accumulator="bigint, y int"), "accumulator: found 'bigint, y int', expected one type"),
    (custom(accumulator="bigint from 'x'"), "accumulator: found \"bigint from 'x'\", expected one type"),
    (custom(accumulator=5), "accumulator: found 5, expected one type"),
    (custom(result=abs, returns="bigint, y int"), "returns: found 'bigint, y int', expected one type"),
    (custom(result=abs, returns="bigint from 'x'"), "returns: found .*, expected one type"),
    (lambda: ORDERS.map("x", len, "amount", type="bigint, b int"), "map: found 'bigint, b int', expected one type"),
    (lambda: ORDERS.map("x", len, "amount", type="bigint from 'y'"), "map: found .*, expected one type"),
    (lambda: ORDERS.map("x", len, "amount", type=None), "map: found None, expected one type"),
    (lambda: ORDERS.cast(amount="int, b int"), "cast: found 'int, b int', expected one type"),
    (lambda: ORDERS.cast(amount=None), "cast: found None, expected one type"),
    # names
    (lambda: ORDERS.map(None, len, "amount", type="bigint"), "map: column None: expected a letter"),
    (lambda: ORDERS.map("_x", len, "amount", type="bigint"), "map: column '_x': expected a letter.* another name"),
    (lambda: ORDERS.map("rowtime", len, "amount", type="bigint"), "map: 'rowtime' is a pseudo column"),
    (lambda: ORDERS.rename(amount=None), "rename: amount to None: expected a letter"),
    (lambda: ORDERS.rename(amount="CITY"), "'amount' can't become 'CITY': there is a column 'city'"),
    (lambda: ORDERS.rename(amount="id"), "'amount' can't become 'id': there is a column 'id'"),
    (lambda: ORDERS.drop(["city", "amount"]), "drop: found .*, expected the name of a column. Several are given one"),
    (lambda: ORDERS.drop(1), "drop: found 1, expected the name of a column"),
    (lambda: ORDERS.select("*"), r"select: found \*, expected columns by their names.* with_columns\(town="),
    (lambda: LAST.select(" * "), r"table 'last': select: found \*, expected columns"),
    (lambda: ORDERS.with_columns(x="*"), r"with_columns: found \*, expected columns"),
    (lambda: L.stream("t", key="id string", schema="v int", headers="rowtime"), "headers='rowtime' is a pseudo"),
    (lambda: L.stream("t", key="id string", schema="v int", headers="RowOffset"), "headers='RowOffset' is a pseudo"),
    (lambda: ORDERS.join(NAMES, on="city", indicator="rowtime"), "'rowtime' is a pseudo column"),
    # a correlation is of two numbers
    (lambda: GROUPED.agg(c=lh.correlation("amount", "city")), "agg: c: correlation of city, a string; expected number"),
    (lambda: GROUPED.agg(c=lh.correlation("at", "price")), "agg: c: correlation of at, a timestamp; expected numbers"),
    (lambda: L.correlation(1, "price"), "expression 1: expected Spark SQL text"),
    (lambda: L.correlation("price", None), "expression None: expected Spark SQL text"),
    (lambda: lh.correlation("price AS double), 'y', cast(amount", "price"), "can't be parsed|one expression and"),
    (lambda: lh.correlation("price AS p", "amount"), "'price AS p' names a column with AS"),
    # switches
    (lambda: ORDERS.latest("t", suppress="no"), "table 't': suppress='no': expected True or False"),
    (lambda: COUNTED.table("t", suppress=1), "table 't': suppress=1: expected True or False"),
    (lambda: LAST.filter("amount > 1").table("t", suppress=None), "table 't': suppress=None: expected True or False"),
    (lambda: LAST.changes(net="yes"), "table 'last': changes: net='yes': expected True or False"),
    (lambda: L.stream("t", key="id string", schema="v int", own_table="no"), "own_table='no': expected True or False"),
    (lambda: L.debezium("t", key="id int", schema="v int", own_table=1), "own_table=1: expected True or False"),
    (lambda: L.stream("t", key="id string", schema="v int", validate=0), "validate=0: expected True or False"),
    (lambda: ORDERS.join(NAMES, on="city", broadcast="no"), "join: broadcast='no': expected True or False"),
    (lambda: L.latest("amount", ignore_nulls="no"), "latest: ignore_nulls='no': expected True or False"),
    (lambda: L.earliest("amount", 3, ignore_nulls=0), "earliest: ignore_nulls=0: expected True or False"),
    (lambda: L.top_k("amount", 3, distinct="no"), "top_k: distinct='no': expected True or False"),
    (lambda: ORDERS.to_topic("t", partitions=True), "partitions=True, expected 1 to 10000"),
    # other systems' texts
    (lambda: L.debezium("t", key="i int", schema="v int", meta=["op string"]), r"meta=\['op string'\]: expected one"),
    (lambda: L.debezium("t", key="id int", schema="v int", meta=1), "meta=1: expected one text"),
    (lambda: L.debezium("t", key="id int", schema="v int", meta=("op string",)), r"meta=\('op string',\): expected"),
    # joins and histories
    (lambda: LAST.join(NAMES, on=1), "join: on=1, expected an expression"),
    (lambda: LAST.join(NAMES, on=[1, 2]), r"join: on=\[1, 2\], expected an expression"),
    (lambda: ORDERS.join(NAMES, on=[1, 2]), r"join: on=\[1, 2\], expected an expression"),
    (lambda: ORDERS.join(ORDERS, how=["left"], within="1 hour"), r"how=\['left'\]; expected 'inner'"),
    (lambda: ORDERS.join(NAMES, on="city", how=["left"]), r"how=\['left'\]; expected 'inner'"),
    (lambda: LAST.join(LAST, how=["left"], prefix="b_"), r"how=\['left'\]; expected 'inner'"),
    (lambda: LAST.history(track=1), "history: track=1; expected names of columns"),
    (lambda: ORDERS.latest("a" * 60).history(), "history: name 'a{60}_history': expected a letter, then at most 62"),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        declare()


def test_a_comment_at_the_end_of_a_predicate_takes_nothing_in() -> None:
    """What follows a branch's predicate in the text for Spark was a part of the comment."""
    big, rest = ORDERS.branch("amount > 2 -- big")
    assert (str(big.steps[0]), str(rest.steps[0])) == (
        "FILTER true AND coalesce((amount > 2), false)",
        "FILTER true AND NOT coalesce((amount > 2), false)",
    )
    (dashes, _) = ORDERS.branch("city = '--' /* no city */")
    assert str(dashes.steps[0]) == "FILTER true AND coalesce((city = '--'), false)"
    replay = Replay(lh.app(big.latest("big"), rest.latest("rest")))
    for amount in (1, 3):
        replay.send("orders", key=f"k{amount}", value={"amount": amount})
    tables = replay.run()
    assert [[row["amount"] for row in tables.rows(name)] for name in ("big", "rest")] == [[3], [1]]
    with_comment = GROUPED.agg(c=lh.correlation("amount -- x", "price"))
    assert "cast(amount AS double)" in str(with_comment.aggregations[0])


def test_a_rename_may_swap_two_names() -> None:
    assert ORDERS.select("city", "amount").rename(city="amount", amount="city").columns[1].name == "amount"
