"""A wrong declaration is told by its word, its step, and what to write instead."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import LakehouseError, NoSuchStep, PlanError

ORDERS: Any = lh.stream("orders", key="id string", schema="customer string, amount decimal(10, 2), city string")
DEEP: Any = lh.stream(
    "deep",
    key="id string",
    schema="st struct<x: int, inner: struct<city: string>>, xs array<int>, places array<struct<city: string>>, "
    "m map<string, struct<city: string>>",
)
LAST: Any = ORDERS.latest("last")
GROUPED: Any = ORDERS.group_by("city")
AGGREGATED: Any = GROUPED.agg(n=lh.count())


def test_words_of_types_may_be_names() -> None:
    schema = "`time` string, number int, bit struct<time: int, int8 array<string>>, n numeric(10, 2), x int from 'dec'"
    stream: Any = lh.stream("o", key="id string", schema=schema)
    assert stream.columns[-2].type == "decimal(10, 2)"
    selected = stream.select(x="struct(x AS time)", y="cast(n AS numeric(8, 2)) + number", z="x + 1")
    assert [column.name for column in selected.columns] == ["id", "x", "y", "z"]


def test_fields_and_elements_that_are_there_are_read() -> None:
    for text in ("st.X", "st.inner.city", "st['x']", "places.city", "places[0].city", "m.a.city", "m['a'].city",
                 "xs[0]", "transform(places, st -> st.city)", "transform(xs, st -> st + 1)"):  # fmt: skip
        DEEP.select(a=text)


def typed(schema: str) -> Callable[[], object]:
    return lambda: lh.stream("o", key="id string", schema=schema)


WORDS = (
    (typed("a string, b timestmp"), r"column 'b': unknown type 'timestmp'. Did you mean 'timestamp'\?"),
    (typed("a strnig b int"), r"column 'a': unknown type 'strnig'. Did you mean 'string'\?"),
    (typed("a string, b array<intt>"), r"column 'b': unknown type 'intt'. Did you mean 'int'\?"),
    (typed("a struct<x: int, y: txt>, b int"), r"column 'a': unknown type 'txt'"),
    (typed("a decimal(10, 2), b varchar(10)"), r"column 'b': unknown type 'varchar\(10\)'. Did you mean 'string'\?"),
    (typed("a string, b number"), r"found the type 'number', expected a decimal with its digits: 'decimal\(10, 2\)'"),
    (typed("a array<map<string, time>>"), r"found the type 'time', expected 'string', or 'bigint' for Debezium's"),
    (typed("a struct<int8: int8>"), r"found the type 'int8', expected 'bigint' for PostgreSQL's"),
    (typed("a bit from 'b'"), r"found the type 'bit', expected 'boolean'"),
    (lambda: ORDERS.select(x="cast(amount * 2 AS numeric)"), r"found the type 'numeric', expected a decimal"),
    (lambda: ORDERS.select(x="try_cast(city AS array<time>)"), r"found the type 'time', expected 'string'"),
    (lambda: ORDERS.filter("cast('12:30' AS time) > cast(city AS time)"), r"found the type 'time', expected 'string'"),
    (lambda: ORDERS.select(x="city::int8"), r"found the type 'int8', expected 'bigint'"),
    (lambda: ORDERS.cast(city="time"), r"cast: .*found the type 'time'"),
    (typed("a string, b decimal(10, 2"), r"it has 1 '\(' and 0 '\)'"),
    (lambda: lh.stream("o", key="id strng", schema="a int"), r"key: .*unknown type 'strng'. Did you mean 'string'\?"),
    (lambda: lh.stream("o", key="id string", schema="a int", format="jsn"), r"Did you mean 'json'\?"),
    (lambda: ORDERS.filter("amuont > 3"), r"reads 'amuont', which does not exist. Did you mean 'amount'\?"),
    (lambda: ORDERS.filter("amount >"), "orders': filter: .*something is missing after '>'"),
    (lambda: ORDERS.filter("a = coalesce()"), r"too few arguments: a = coalesce\(\)\."),
    (lambda: ORDERS.filter("uppr(city) = 'a'"), "orders': filter: .*no function 'uppr'. Did you mean upper"),
    (lambda: ORDERS.with_columns(x="citty"), r"orders': with_columns: .*Did you mean 'city'\?"),
    (lambda: ORDERS.with_columns(id="upper(id)"), "orders': with_columns: 'id' is the key"),
    (lambda: ORDERS.rename(city="amount"), "orders': rename: 'city' can't become 'amount': there is a column 'amount'"),
    (lambda: ORDERS.cast(citty="int"), r"orders': cast: .*Did you mean 'city'\?"),
    (lambda: ORDERS.cast(city="itn"), r"orders': cast: .*column 'city': unknown type 'itn'. Did you mean 'int'\?"),
    (lambda: DEEP.select("st.y AS x"), r"reads the field 'y' of st, which does not exist. There are: x, inner\."),
    (lambda: DEEP.select("st.inner.zip AS x"), r"the field 'zip' of st.inner, which .* There are: city\."),
    (lambda: DEEP.select("st['y'] AS x"), r"found 'y' as a field of st; expected one of x, inner, as in st.x"),
    (lambda: DEEP.select("xs.nothing AS x"), r"reads the field 'nothing' of xs, whose type int has none"),
    (lambda: DEEP.select("places.zip AS x"), r"reads the field 'zip' of places, which does not exist"),
    (lambda: DEEP.select("m.a.zip AS x"), r"reads the field 'zip' of m.a, which does not exist"),
    (lambda: DEEP.filter("id[0] = 'a'"), r"found id of type string; expected an array or a map"),
    (lambda: DEEP.group_by("id").agg(n=lh.latest("xs")).having("n.x = 1"), r"reads the field 'x' of n"),
    (lambda: ORDERS.drop("customer", "amount", "city"), "orders': drop: no column is left"),
    (lambda: GROUPED.agg(n=lh.sum("city")), "orders': agg: sum.city. AS n sums a string"),
    (lambda: GROUPED.agg(lh.count()), r"found count\(\*\) without a name. Name each aggregate: n=lh.count"),
    (lambda: lh.app(LAST).table("lst"), r"Did you mean 'last'\?"),
)


@pytest.mark.parametrize(("declare", "said"), WORDS, ids=[said for _, said in WORDS])
def test_the_wrong_word_and_its_step_are_named(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        declare()


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (ORDERS, "found stream 'orders', expected tables and sinks. A stream alone keeps nothing"),
        (GROUPED, "found stream 'orders', grouped, .* add .agg"),
        (AGGREGATED, "found aggregates of stream 'orders', .* add .table.\"name\""),
        (LAST.changes(), "found changelog of table 'last', .*to_topic"),
        ([LAST], r"found \[<table 'last'>\], .*one by one: lh.app\(one, another\)"),
        ("orders", "found 'orders', expected tables and sinks"),
    ],
    ids=["stream", "groups", "aggregates", "changelog", "list", "text"],
)
def test_what_is_no_part_of_an_application_is_named_shortly(part: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said) as refused:
        lh.app(part)
    assert len(str(refused.value)) < 200, "not the whole declaration"


@pytest.mark.parametrize("use", [lambda: ORDERS.join(GROUPED), lambda: ORDERS.merge(LAST)], ids=["join", "merge"])
def test_an_argument_that_does_not_fit_is_named_shortly(use: Callable[[], object]) -> None:
    with pytest.raises(PlanError, match=r"found (stream|table) '") as refused:
        use()
    assert len(str(refused.value)) < 200


NO_TEXTS = (
    (lambda: ORDERS.filter(["city"]), r"filter: expression \['city'\]: .* one by one, without brackets"),
    (lambda: ORDERS.map("a", print, ["city"], type="string"), r"map: expression \['city'\]: expected Spark SQL text"),
    (lambda: ORDERS.group_by({"city": 1}), "group_by: expression .*expected Spark SQL text"),
    (lambda: ORDERS.latest("x", order_by=["city"]), "order_by: expression"),
    (lambda: ORDERS.drop(["city"]), r"drop: found \['city'\], expected the name of .* without brackets"),
    (lambda: ORDERS.join(LAST, on=5), "on=5, expected an expression"),
    (lambda: lh.stream("x", key="k string", schema=["a string"]), r"found \['a string'\], expected text"),
    (lambda: lh.stream("x", key="k string", schema="a string", event_time=b"a"), "expression b'a'"),
)


@pytest.mark.parametrize(("use", "said"), NO_TEXTS, ids=[said for _, said in NO_TEXTS])
def test_what_is_no_text_is_named(use: Callable[[], object], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        use()


STEPS = (
    (lambda: LAST.rekey("x"), r"table 'last' has no rekey\(\). .*table.to_stream\(\).rekey\(...\)"),
    (lambda: LAST.agg(n=lh.count()), "Group its rows first: table.group_by"),
    (lambda: LAST.to_topic("x"), r"table.changes\(\).to_topic"),
    (lambda: LAST.window(lh.tumbling("1 hour")), "Windows are over records"),
    (lambda: LAST.filter("id > '1'").latest("x"), r"It keeps the latest row of each key: .table\("),
    (lambda: ORDERS.agg(n=lh.count()), "stream 'orders' has no agg.*Group it first"),
    (lambda: ORDERS.changes(), "A stream has no changelog, a table has"),
    (lambda: ORDERS.window(lh.tumbling("1 hour")), r"stream.group_by\(\"city\"\).window"),
    (lambda: ORDERS.where("x"), r"Did you mean filter\?"),
    (lambda: ORDERS.groupBy("x"), r"Did you mean group_by\?"),
    (lambda: ORDERS.fliter("x"), r"Did you mean 'filter'\?"),
    (lambda: GROUPED.table("x"), r"The aggregates come first: .agg\(n=lh.count\(\)\)"),
    (lambda: GROUPED.sum("amount"), r".agg\(n=lh.sum\(...\)\)"),
    (lambda: AGGREGATED.to_topic("x"), r'.table\("name"\).changes\(\).to_topic\("topic"\)'),
    (lambda: LAST.changes().filter("x"), r"table.to_stream\(\).filter"),
    (lambda: lh.app(LAST).run(), r"lake.run\(app\)"),  # type: ignore[attr-defined]
    (
        lambda: LAST.nothing_like_this(),
        "There are: alert, cast, changes, drop, expect, expect_fresh, expect_unique, filter, group_by, history, join, "
        r"map, rename, select, to_stream, with_columns\.$",
    ),
    (
        lambda: ORDERS.nothing_like_this(),
        "There are: branch, cast, drop, expect, explode, filter, group_by, join, latest, map, merge, rekey, rename, "
        r"retime, select, to_function, to_topic, with_columns\.$",
    ),
    (lambda: ORDERS.to_function("f", print).nothing_like_this(), r"function 'f' has no nothing_like_this\(\)\.$"),
    (lambda: AGGREGATED.nothing_like_this(), r"There are: having, table\.$"),
)


@pytest.mark.parametrize(("use", "said"), STEPS, ids=[said for _, said in STEPS])
def test_a_step_that_there_is_not_says_what_to_write_instead(use: Callable[[], object], said: str) -> None:
    with pytest.raises(NoSuchStep, match=said):
        use()


def test_a_missing_step_is_an_attribute_error_too() -> None:
    """So `hasattr`, copies and pickles of declarations work as of any value."""
    assert not hasattr(LAST, "rekey")
    assert not hasattr(LAST, "_repr_latex_")
    assert copy.deepcopy(LAST) == LAST == pickle.loads(pickle.dumps(LAST))


def test_a_name_that_the_package_does_not_have_is_told_with_a_near_one() -> None:
    with pytest.raises(AttributeError, match=r"lakehouse has no strem. Did you mean 'stream'\?"):
        lh.strem("orders")  # type: ignore[attr-defined]


ODD = (None, "", 0, -1, 1.5, 2**70, (), {}, {"a": 1}, object(), "\ud800", "a b", "n >", b"x", len, float("nan"))
# A call that is right, and of each argument in turn an odd value.
CALLS: tuple[tuple[Callable[..., object], dict[str, Any]], ...] = (
    (lh.app, {"upstream": []}),
    (lh.count, {}), (lh.sum, {"column": "n"}), (lh.collect_list, {"column": "n"}),
    (lh.top_k, {"column": "n", "k": 2}), (lh.latest, {"column": "n"}),
    (lh.debezium, {"topic": "t", "key": "id int", "schema": "n int", "meta": "", "flattened": False, "decimals": "",
                   "times": {}, "unavailable": "x", "unsent": "keep", "truncates": "quarantine", "format": "json",
                   "key_format": None, "event_time": None, "name": None, "max_ahead": None, "documents": False}),
    (lh.stream, {"topic": "t", "key": "id int", "schema": "n int", "format": "json", "key_format": None, "name": None,
                 "event_time": None, "max_ahead": None}),
    (lh.describe, {"item": LAST}), (lh.lineage, {"app": lh.app(LAST)}),
    (lh.tumbling, {"size": "1 hour", "grace": "1 hour"}), (lh.session, {"gap": "1 hour", "grace": "1 hour"}),
    (lh.hopping, {"size": "1 hour", "advance": "1 hour", "grace": "1 hour"}),
    (ORDERS.expect, {"name": "x", "condition": "true"}),
    (ORDERS.filter, {"predicate": "true"}), (ORDERS.latest, {"name": "x", "order_by": None, "tombstones": None}),
    (ORDERS.join, {"other": LAST, "on": "city", "how": "left", "prefix": "l_", "indicator": None}),
    (ORDERS.explode, {"array": "array(1)", "name": "x"}), (ORDERS.rekey, {}), (ORDERS.to_topic, {"topic": "x"}),
    (GROUPED.window, {"window": lh.tumbling("1 hour")}), (AGGREGATED.table, {"name": "x"}), (AGGREGATED.having, {}),
)  # fmt: skip


@pytest.mark.parametrize(("call", "arguments"), CALLS)
def test_an_odd_argument_is_taken_or_refused_with_a_sentence(
    call: Callable[..., object], arguments: dict[str, Any]
) -> None:
    for name in arguments:
        for value in ODD:
            with contextlib.suppress(LakehouseError):
                call(**arguments | {name: value})
