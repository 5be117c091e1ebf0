"""Streams and tables, as Kafka means them, on Delta Lake, with the whole history kept.

import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string, amount decimal(10, 2)")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(totals)
"""

from lakehouse.errors import LakehouseError
from lakehouse.plan.build import app, count, stream, sum
from lakehouse.plan.declare import Aggregation, App, Changes, Grouped, Sink, Stream, Table
from lakehouse.plan.text import describe
from lakehouse.run.lake import Lake

__all__ = [
    "Aggregation", "App", "Changes", "Grouped", "Lake", "LakehouseError", "Sink", "Stream", "Table", "app", "count",
    "describe", "stream", "sum",
]  # fmt: skip
