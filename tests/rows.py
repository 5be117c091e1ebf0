"""Applications whose tables are made of the rows of tables, and histories for them, for tests on model and Spark."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.plan.app import App
from lakehouse.semantics.record import Record

SCHEMA = "g string, n bigint, `to` string"

A = lh.stream("a", key="k string", schema=SCHEMA).latest("a_")
B = lh.stream("b", key="k string", schema="g string, n bigint").latest("b_")

HIGH = A.filter("n > 1").with_columns(twice="2 * n").table("high")
ALL = (
    A.group_by("g")
    .agg(
        rows=lh.count(), total=lh.sum("n"), low=lh.min("n"), mean=lh.avg("n / 2"), listed=lh.collect_list("n"),
        last=lh.latest("n"),
    )
    .table("all_")
)  # fmt: skip
SUMS = A.filter("n IS NOT NULL").group_by("g").agg(rows=lh.count(), total=lh.sum("n")).having("rows > 0").table("sums")
BY_KEY = A.join(B, prefix="b_").table("by_key")
LEFT = A.join(B, how="left", prefix="b_").table("left_")
RIGHT = A.join(B, how="right", prefix="b_").table("right_")
OUTER = A.join(B, how="outer", prefix="b_").table("outer_")
REFERRING = A.join(B, on="to", how="left", prefix="b_").table("referring")
STRICT = A.join(B, on="to", prefix="b_").filter("n > 0").table("strict")
CHAIN = REFERRING.group_by("b_g").agg(rows=lh.count(), total=lh.sum("n")).table("chain")

APP: App = lh.app(HIGH, ALL, SUMS, BY_KEY, LEFT, RIGHT, OUTER, REFERRING, STRICT, CHAIN)

T = 1_700_000_000_000
NAMES = ("x", "y", "z")
NUMBERS = st.none() | st.integers(0, 3)
ROWS_A = st.none() | st.fixed_dictionaries({
    "g": st.sampled_from((None, "g", "h")), "n": NUMBERS, "to": st.sampled_from((None, *NAMES)),
})  # fmt: skip
ROWS_B = st.none() | st.fixed_dictionaries({"g": st.sampled_from((None, "g", "h")), "n": NUMBERS})


def histories() -> Any:
    """Histories of both topics: (topic, key, value or a tombstone)."""
    a = st.tuples(st.just("a"), st.sampled_from(NAMES), ROWS_A)
    b = st.tuples(st.just("b"), st.sampled_from(NAMES), ROWS_B)
    return st.lists(a | b, max_size=20)


def records_of(history: list[tuple[str, str, dict[str, Any] | None]], ticks: list[int] | None = None) -> list[Record]:
    """Return a history as records: key x in partition 0, others in 1. ticks: how many records a tick has, then one."""
    sizes, tick, left = iter(ticks or []), 0, 0
    offsets: dict[tuple[str, int], int] = {}
    made = []
    for number, (topic, key, value) in enumerate(history):
        if left == 0:
            tick, left = tick + 1, next(sizes, 1)
        left -= 1
        partition = int(key != "x")
        offset = offsets.get((topic, partition), -1) + 1
        offsets[topic, partition] = offset
        data = None if value is None else json.dumps(value).encode()
        time = T + number * 1000
        made.append(Record(topic, f"replay-{topic}", partition, offset, time, key.encode(), data, tick, time))
    return made
