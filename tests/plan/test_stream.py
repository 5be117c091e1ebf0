"""Streams: explode, merge, branch, rename, cast, drop, map: the columns that they make, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError

orders = lh.stream(
    "orders", key="id string", schema="n bigint, word string, tags array<string>, grid array<array<int>>"
)
others = lh.stream(
    "others", key="id string", schema="n bigint, word string, tags array<string>, grid array<array<int>>"
)


def shown(stream: lh.Stream) -> list[str]:
    return [str(column) for column in stream.columns]


def test_explode_adds_the_element_beside_the_array() -> None:
    assert shown(orders.explode("tags", "tag"))[-1] == "tag string"
    assert shown(orders.explode("grid", "line").explode("line", "cell"))[-2:] == ["line array<int>", "cell int"]


def test_the_fields_of_a_struct_keep_their_case() -> None:
    """Avro and Protobuf find a row's values by these names."""
    stream = lh.stream(
        "orders", key="id string", schema="n int, lines array<struct<Sku: string, At: struct<Shop: int>>>"
    )
    assert shown(stream.explode("lines", "line"))[-1] == "line struct<Sku: string, At: struct<Shop: int>>"
    assert shown(stream.select("named_struct('Sku', n) AS line"))[-1] == "line struct<Sku: int>"
    assert shown(stream.select("cast(lines AS array<struct<SKU: string>>) AS x"))[-1] == "x array<struct<SKU: string>>"


def test_retime_changes_no_column() -> None:
    assert shown(orders.retime("n")) == shown(orders)
    assert str(orders.retime("n").steps[-1]) == "RETIME n"


def test_rename_cast_and_drop_keep_the_key_and_the_order_of_the_rest() -> None:
    assert shown(orders.rename(n="number").drop("grid", "tags")) == ["id string", "number bigint", "word string"]
    assert shown(orders.select("n", "word").cast(n="int")) == ["id string", "word string", "n int"]
    assert shown(orders.select("n").cast(n="decimal(10, 2)")) == ["id string", "n decimal(10, 2)"]


def test_map_replaces_or_adds_a_column() -> None:
    assert shown(orders.select("n").map("twice", len, "n", type="array<double>")) == [
        "id string", "n bigint", "twice array<double>",
    ]  # fmt: skip
    assert shown(orders.select("n", "word").map("N", len, "n", type="string")) == [
        "id string", "word string", "N string",
    ]  # fmt: skip


def test_merge_reads_all_topics_through_their_schemas() -> None:
    merged = orders.merge(others, orders.filter("n > 1"))
    assert merged.topics == ("orders", "others")
    assert [source.name for source in merged.sources] == ["orders", "others"]
    assert merged.label == "stream 'orders + others + orders'"
    assert shown(merged) == shown(orders)


def test_merge_accepts_any_order_of_the_values() -> None:
    merged = orders.select("n", "word").merge(others.select("word", "n"))
    assert shown(merged) == ["id string", "n bigint", "word string"]


def test_explodes_and_merges_follow_each_other_to_any_depth() -> None:
    """There was room for three."""
    deep = orders
    for name in "abcd":
        deep = deep.explode("tags", name)
        deep = deep.merge(deep)
    assert shown(deep)[-4:] == ["a string", "b string", "c string", "d string"]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: orders.explode("n", "item"), "explode: 'n' is a bigint; expected an array"),
        (lambda: orders.retime("word"), "retime: 'word' is a string; expected a timestamp, or milliseconds"),
        (lambda: orders.explode("tags", "n"), "are the same name, since case is ignored"),
        (lambda: orders.explode("tags", "rowtime"), "pseudo column"),
        (lambda: orders.explode("tags", "a tag"), "expected a letter, then at most 62 letters"),
        (lambda: orders.merge("others"), "expected streams"),
        (lambda: orders.merge(others.drop("n")), "the columns differ. Found key id of .*; expected key id of .* Use"),
        (lambda: orders.merge(others.cast(n="int")), "the columns differ"),
        (lambda: orders.merge(others.rekey("word")), "the columns differ. Found key word"),
        (lambda: orders.branch(), "branch: expected at least one predicate"),
        (lambda: orders.branch("nowhere = 1"), "'nowhere', which does not exist"),
        (lambda: orders.rename(id="name"), "rename: 'id' is not a value column, it is in the key. There are: n, word"),
        (lambda: orders.rename(n="word"), "rename: 'n' can't become 'word': there is a column 'word'"),
        (lambda: orders.cast(nowhere="int"), "cast: 'nowhere' is not a value column"),
        (lambda: orders.cast(n="varchar(3)"), "unknown type"),
        (lambda: orders.drop("id"), "drop: 'id' is not a value column"),
        (lambda: orders.drop("n", "word", "tags", "grid"), "no column is left beside the key"),
        (lambda: orders.map("m", "twice", "n", type="int"), "expected a function and its arguments"),
        (lambda: orders.map("m", len, type="int"), "expected a function and its arguments"),
        (lambda: orders.map("id", len, "n", type="int"), "'id' is the key; choose another name"),
        (lambda: orders.map("m", len, "n", type="interval"), "unknown type"),
        (lambda: orders.map("m", len, "nowhere", type="int"), "'nowhere', which does not exist"),
    ],
)  # fmt: skip
def test_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        declare()


def test_steps_as_text() -> None:
    stream = orders.explode("tags", "tag").map("size", len, "tag", type="int").merge(
        others.explode("tags", "tag").map("size", len, "tag", type="int")
    )  # fmt: skip
    lines = [line.strip() for line in lh.describe(stream.select("tag", "size").rekey("tag").latest("t")).splitlines()]
    assert lines[2:8] == [
        "REKEY tag", "SELECT tag, size", "MERGE", "MAP size int = builtins.len(tag)", "EXPLODE tags AS tag",
        "FROM topic orders (stream orders)",
    ]  # fmt: skip
