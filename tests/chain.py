"""A chain of tables, six deep, over two topics: for tests on the model and on Spark."""

from __future__ import annotations

import lakehouse as lh
from lakehouse.plan.app import App

from .rows import A, B

HIGH = A.filter("n > 0 OR g IS NULL").table("high")
PLACED = HIGH.join(B, on="to", how="left", prefix="b_").table("placed")
SUMS = PLACED.group_by("b_n").agg(rows=lh.count(), total=lh.sum("n")).having("rows > 1").table("sums")
BY_ROWS = (
    SUMS.group_by("rows").agg(groups=lh.count(), total=lh.sum("total"), of=lh.collect_list("b_n")).table("by_rows")
)
TOLD = BY_ROWS.filter("groups > 0").table("told")

APP: App = lh.app(TOLD)
