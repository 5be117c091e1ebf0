"""Streams and tables, as Kafka means them, on Delta Lake, with the whole history kept.

import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string, amount decimal(10, 2)")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(totals)
"""

from typing import TYPE_CHECKING, NoReturn

from lakehouse.errors import LakehouseError
from lakehouse.plan.aggregate_functions import (
    Aggregation,
    aggregate,
    avg,
    collect_list,
    collect_set,
    correlation,
    count,
    count_distinct,
    earliest,
    histogram,
    latest,
    max,
    min,
    only,
    reduce,
    stddev,
    sum,
    top_k,
    variance,
)  # fmt: skip
from lakehouse.plan.alert import FunctionSink, StreamRecord
from lakehouse.plan.app import App, app
from lakehouse.plan.build import stream
from lakehouse.plan.databases.debezium import debezium
from lakehouse.plan.databases.snapshots import snapshots
from lakehouse.plan.lineage.description import describe
from lakehouse.plan.lineage.drawing import lineage
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Changes, Grouped, Sink, Table
from lakehouse.plan.windows import hopping, session, sliding, tumbling
from lakehouse.run.lake import Lake

if not TYPE_CHECKING:  # a type checker should not believe that any name exists

    def __getattr__(name: str) -> NoReturn:
        raise AttributeError(f"lakehouse has no {name}.{suggest_near(name, __all__)}")


__all__ = [
    "Aggregation", "App", "Changes", "FunctionSink", "Grouped", "Lake", "LakehouseError", "Sink", "Stream",
    "StreamRecord", "Table", "aggregate", "app", "avg", "collect_list", "collect_set", "correlation", "count",
    "count_distinct", "debezium", "describe", "earliest", "histogram", "hopping", "latest", "lineage", "max", "min",
    "only", "reduce", "session", "sliding", "snapshots", "stddev", "stream", "sum", "top_k", "tumbling", "variance",
]  # fmt: skip
