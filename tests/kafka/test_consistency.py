"""Two topics, one application, while it runs: tables read at one tick are consistent with each other.

An order is written to its topic first and then, once or twice, to the topic of its shipments. A tick may hold an order
without its shipments, or shipments without the order; every reader must see the same tick of both.
"""

from __future__ import annotations

import struct
import threading
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.run.lake import Lake

T = 1_700_000_000_000
READS = 6
WAIT_SECONDS = 120.0


def application() -> lh.App:
    orders = lh.stream("con-orders", key="id string", schema="amount bigint", format="kafka")
    shipments = lh.stream("con-shipments", key="id string", schema="amount bigint", format="kafka")
    return lh.app(
        orders.latest("orders"),
        shipments.group_by("id").agg(n=lh.count(), amount=lh.sum("amount")).table("shipped"),
    )


def folded(rows: list[dict[str, Any]], tick: int) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Both tables at a tick, from bronze's rows, in plain Python."""
    orders: dict[str, int] = {}
    shipped: dict[str, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        if row["tick"] > tick:
            continue
        key, (amount,) = row["key"].decode(), struct.unpack(">q", row["value"])
        if row["topic"] == "con-orders":
            orders[key] = amount
        else:
            n, total = shipped.get(key, (0, 0))
            shipped[key] = (n + 1, total + amount)
    return orders, shipped


def read(lake: Lake, app: lh.App, tick: int) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    orders = lake.read(app.table("orders"), tick=tick).collect()
    shipped = lake.read(app.table("shipped"), tick=tick).collect()
    return {row.id: row.amount for row in orders}, {row.id: (row.n, row.amount) for row in shipped}


@pytest.mark.slow
def test_tables_read_at_one_tick_are_consistent_while_the_job_runs(lake, broker, cluster, bronze) -> None:
    from lakehouse.kafka.produce import ProducerRecord, produce

    for topic in ("con-orders", "con-shipments"):
        cluster.create(topic, partitions=2)
    one, app = lake(), application()
    stop, done, failure = threading.Event(), threading.Event(), []
    batches = threading.Semaphore(0)

    def work() -> None:
        try:
            one.run(app, stop=stop, listen=lambda event: batches.release() if event.kind == "batch" else None)
        except BaseException as error:
            failure.append(error)
            batches.release()

    def send() -> None:
        n = 0
        while not done.wait(0.01):
            key, value = f"o{n % 50}".encode(), struct.pack(">q", n)
            for topic, times in (("con-orders", 1), ("con-shipments", 1 + n % 2)):
                produce(broker.bootstrap_servers, {}, topic, [ProducerRecord(key, value, T + n)] * times)
            n += 1

    threads = [threading.Thread(target=work), threading.Thread(target=send)]
    for thread in threads:
        thread.start()
    seen = set()
    try:
        for _ in range(READS):
            assert batches.acquire(timeout=WAIT_SECONDS)
            assert not failure
            tick = one.tick(*app.tables)
            assert read(one, app, tick) == folded(bronze(one), tick)
            seen.add(tick)
    finally:
        done.set()
        threads[1].join(WAIT_SECONDS)
        stop.set()
        threads[0].join(WAIT_SECONDS)
    assert not failure
    assert len(seen) >= READS // 2, "the job stood still while it was read"
    # A second read gives the same, and a whole run in another lake gives the same tables.
    rows = bronze(one)
    for tick in sorted(seen)[:2]:
        assert read(one, app, tick) == folded(rows, tick)
    one.run(app, until="caught_up")
    other = lake("other")
    other.run(app, until="caught_up")
    assert read(other, app, other.tick(*app.tables)) == read(one, app, one.tick(*app.tables))
