"""What is made of tables' rows: orders, each with its customer by a foreign key, and a sum that undoes.

    .venv/bin/python benchmarks/rows.py [--orders N] [--customers N ...] [--few N]
    .venv/bin/python benchmarks/rows.py --referring N [--memory 2g]

Kafka and ingest are left out: bronze is written first. The first tick has all orders and customers, the second changes
a few orders, the third 1% of the customers, to each of which many orders refer. Shown are seconds for all tables of an
application, in one process that is warm; the sums are checked.

`--referring N`: N orders refer to one customer, who moves to another city, is deleted, and comes back. Each tick has
one record, and N rows of the join change. Every row is checked, and that each has exactly one change.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from common import show
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import BronzeTick, CommitMetadata, CommitNumber, TopicState, app_id, write_metadata
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import INGEST
from lakehouse.plan.app import App
from lakehouse.plan.origin import How
from lakehouse.settings.config import load
from lakehouse.spark.changelog import changefeed
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.silver.query import Silver

ORDERS = lh.stream("orders", key="id string", schema="customer string, amount bigint").latest("current_orders")
CUSTOMERS = lh.stream("customers", key="name string", schema="city string").latest("customer")
PLACED = ORDERS.join(CUSTOMERS, on="customer", how="left").table("placed")
APPS = {
    "the two tables alone": lh.app(ORDERS, CUSTOMERS),
    "and a filter": lh.app(CUSTOMERS, ORDERS.filter("amount > 500").table("large")),
    "and a sum of the rows": lh.app(CUSTOMERS, ORDERS.group_by("customer").agg(total=lh.sum("amount")).table("sums")),
    "and the foreign-key join": lh.app(PLACED),
    "and the join, and its sum": lh.app(
        PLACED.group_by("city").agg(orders=lh.count(), total=lh.sum("amount")).table("cities")
    ),
}


ALONE, OTHER = "c0", "c1"  # the customer to whom all orders refer, but one in a thousand
CITIES = {"all": "Oslo", "it moves": "Lima", "it is deleted": None, "it comes back": "Rome"}


def write_tick(
    root: Path, tick: int, topics: Mapping[str, Mapping[str, bytes | None]], offsets: dict[str, int]
) -> None:
    """Write a tick as ingest leaves it, of one partition a topic. offsets: where each topic goes on, which is moved."""
    time_us = 1_700_000_000_000_000 + tick * 1_000_000
    now = pa.scalar(time_us, pa.timestamp("us", "UTC"))
    parts = []
    for topic, rows in topics.items():
        each, first = len(rows), offsets.get(topic, 0)
        offsets[topic] = first + each
        parts.append(pa.table({
            "topic": [topic] * each, "topic_id": [f"id-{topic}"] * each, "partition": pa.array([0] * each, pa.int32()),
            "offset": pa.array(range(first, first + each), pa.int64()), "timestamp": [now] * each,
            "timestamp_type": pa.array([0] * each, pa.int32()),
            "headers": pa.nulls(each, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "key": [key.encode() for key in rows], "value": pa.array(rows.values(), pa.binary()),
            "tick": pa.array([tick] * each, pa.int64()), "order_time": [now] * each,
        }))  # fmt: skip
    states = {topic: TopicState(f"id-{topic}", {0: end}) for topic, end in offsets.items()}
    number = CommitNumber(app_id(INGEST), 1, tick, f"{tick}")
    text = write_metadata(CommitMetadata(BronzeTick(topics=states, run="run"), number))
    commit = CommitProperties(
        custom_metadata={"userMetadata": text},
        app_transactions=[Transaction(app_id(INGEST), (1 << 40) + tick)],
    )
    path = str(root / "bronze" / "records")
    write_deltalake(path, pa.concat_tables(parts), mode="append", partition_by=["topic"], commit_properties=commit)


def order(dice: random.Random, customers: int) -> bytes:
    return json.dumps({"customer": f"c{dice.randrange(customers)}", "amount": dice.randrange(1000)}).encode()


def customer(dice: random.Random) -> bytes:
    return json.dumps({"city": f"city {dice.randrange(100)}"}).encode()


def seconds(spark: SparkSession, app: App, bronze: Path) -> list[float]:
    """Return the seconds that each tick takes."""
    layout = Layout(str(bronze))
    lake, found = open_lake(spark, layout), []
    with Silver(lake, app, lambda tick, records: None) as silver:
        for tick in (1, 2, 3):
            began = time.monotonic()
            silver.catch_up(tick)
            found.append(time.monotonic() - began)
    if any(table.name == "cities" for table in app.tables):
        total = lake.read(layout.silver("cities")).agg({"orders": "sum", "total": "sum"}).first()
        rows = lake.read(layout.silver("current_orders")).selectExpr("count(*)", "sum(amount)").first()
        if total is None or rows is None or {*total} != {*rows}:
            raise SystemExit(f"the cities add up to {total}, the orders to {rows}")
    return found


def referring(spark: SparkSession, orders: int, how: How) -> list[str]:
    """Return the seconds that each change of the one customer takes, and the largest heap."""
    joined = ORDERS.join(CUSTOMERS, on="customer", how=how).table("joined")
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()  # type: ignore[union-attr]
    heaps = [pool for pool in pools if pool.getType().name() == "HEAP"]
    taken = []
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as folder:
        refer = [OTHER if n % 1000 == 0 else ALONE for n in range(orders)]
        sums = {name: sum(n for n, of in enumerate(refer) if of == name) for name in (ALONE, OTHER)}
        write_history(Path(folder), refer)
        lake = open_lake(spark, Layout(folder))
        for tick, city in enumerate(CITIES.values(), 1):
            for pool in heaps:
                pool.resetPeakUsage()
            began = time.monotonic()
            with Silver(lake, lh.app(joined), lambda tick, records: None) as silver:
                silver.catch_up(tick)
            heap = sum(pool.getPeakUsage().getUsed() for pool in heaps) / 1e9
            taken.append(f"{time.monotonic() - began:.1f} ({heap:.1f})")
            print(how, city, taken[-1], flush=True)
            if tick > 1:
                check_changes(lake, lake.open(joined), tick, refer.count(ALONE), gone=city is None and how == "inner")
            rows = (
                lake.read(lake.layout.silver("joined")).groupBy("customer", "city").agg(F.count("*"), F.sum("amount"))
            )
            wanted = {(OTHER, "Bonn", refer.count(OTHER), sums[OTHER])}
            if city is not None or how == "left":
                wanted.add((ALONE, city, refer.count(ALONE), sums[ALONE]))
            if (found := {tuple(row) for row in rows.collect()}) != wanted:
                raise SystemExit(f"tick {tick}, {how}: the rows are {found}, expected {wanted}")
    return taken


def write_history(root: Path, refer: list[str]) -> None:
    """Write all orders, each with its customer, and both customers; then each change of the one customer."""
    offsets: dict[str, int] = {}
    first, *later = [None if city is None else b'{"city": "%s"}' % city.encode() for city in CITIES.values()]
    every = {f"o{n}": b'{"customer": "%s", "amount": %d}' % (of.encode(), n) for n, of in enumerate(refer)}
    write_tick(root, 1, {"customers": {ALONE: first, OTHER: b'{"city": "Bonn"}'}, "orders": every}, offsets)
    for tick, value in enumerate(later, 2):
        write_tick(root, tick, {"customers": {ALONE: value}}, offsets)


def check_changes(lake: OpenLake, opened: OpenTable, tick: int, rows: int, *, gone: bool) -> None:
    """End if a tick did not change each of so many rows exactly once, in the table, and in its changelog."""
    ways = ["count(*)", "count(DISTINCT id)", "count(DISTINCT _position)", "count_if(_tombstone)"]
    made = changefeed.per_event(opened, tick - 1, tick).selectExpr(*ways, "sum(hash(id, _position))")
    first, again = made.first(), made.first()
    if first is None or first != again or first[:4] != (rows, rows, rows, rows if gone else 0):
        raise SystemExit(f"tick {tick}: changes, keys, identities, deletes are {first}, then {again}, not {rows} each")
    said = next(reader.walk_log_rows(lake.layout, opened.name))
    changed = [said[kind] or 0 for kind in ("inserted", "updated", "deleted")]
    if said["tick"] != tick or sorted(changed) != [0, 0, rows]:
        raise SystemExit(f"tick {tick}: the commit inserted, updated and deleted {changed} rows, not {rows}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--orders", type=int, default=1_000_000)
    arguments.add_argument("--customers", type=int, nargs="+", default=[1_000, 100_000])
    arguments.add_argument("--few", type=int, default=1_000)
    arguments.add_argument("--referring", type=int)
    arguments.add_argument("--memory", default="3g", help="Spark's heap")
    chosen = arguments.parse_args()
    spark = open_session(load(environ={"LAKEHOUSE_SPARK_MEMORY": chosen.memory}))
    lines = []
    if chosen.referring is not None:
        for how in ("inner", "left"):
            lines.append([how, *referring(spark, chosen.referring, how)])
            print(lines[-1], flush=True)
        title = f"{chosen.referring:,} orders of one customer: seconds (the largest heap in GB)"
        show(title, ["join", *CITIES], lines)
        return
    for customers in chosen.customers:
        for name, app in APPS.items():
            with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as folder:
                dice, offsets, root = random.Random(1), {}, Path(folder)
                every = {f"o{n}": order(dice, customers) for n in range(chosen.orders)}
                people = {f"c{n}": customer(dice) for n in range(customers)}
                write_tick(root, 1, {"customers": people, "orders": every}, offsets)
                few = {f"o{dice.randrange(chosen.orders)}": order(dice, customers) for _ in range(chosen.few)}
                write_tick(root, 2, {"orders": few}, offsets)
                moved = {f"c{n}": customer(dice) for n in range(max(1, customers // 100))}
                write_tick(root, 3, {"customers": moved}, offsets)
                taken = seconds(spark, app, root)
                lines.append([f"{customers:,}", name, *(f"{of:.1f}" for of in taken)])
                print(lines[-1], flush=True)
    columns = ["customers", "tables", "all", f"{chosen.few:,} orders", "1% of the customers"]
    show(f"{chosen.orders:,} orders, seconds", columns, lines)


if __name__ == "__main__":
    main()
