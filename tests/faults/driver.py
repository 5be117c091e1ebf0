"""A process that runs the faults' application, and kills itself at a given point.

    driver.py LAKE SERVERS [POINT:before|after:N] [--chain | --joins] [--stay | --damage --backfill | --revert]

It kills itself (SIGKILL) before or after the N-th call at the point; without a point it ends when it has caught up.
--chain: tables of tables; --joins: those of joins. --small: few records in a transaction. --damage, --backfill,
--revert: it then damages the table by_id, rebuilds it, takes it back to tick 1.
The points are wrapped from here: the engine knows nothing of them.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import lakehouse as lh
from lakehouse.run.job import transactions
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load

ORDERS, OWN, CHANGELOG, SUMS = "faults-orders", "faults-own", "faults-totals", "faults-sums"
POINTS = {
    "bronze": ("lakehouse.spark.bronze.tick", "append_tick"),  # the tick is planned | written
    "append": ("lakehouse.spark.bronze.tick", "append"),  # each of its tables: the own one first, the shared one last
    "merge": ("lakehouse.spark.silver.writer", "SilverWriter._commit_batch"),  # a table is not merged | is merged
    "publish": ("lakehouse.run.job.publishing", "Publishing.publish"),  # all tables merged, not published | published
    "decision": ("lakehouse.spark.bronze.interventions", "_append_tick"),  # it is written down | its tick is complete
    "applied": (
        "lakehouse.spark.silver.writer",
        "SilverWriter._apply_intervention",
    ),  # its tick is complete | the table has it
    "build": ("lakehouse.run.repair.backfill", "build"),  # nothing is built beside the table | all of it is
    "compare": ("lakehouse.run.repair.backfill", "compare"),
    "anchor": ("lakehouse.spark.history.anchors", "keep_anchor"),  # the old content is copied, for a way back
    "asked": ("lakehouse.run.repair.carry_out", "intervene"),  # before | after all of it
    "part": ("lakehouse.kafka.publish", "Publisher.publish"),  # each transaction: not begun | committed
    "sent": ("lakehouse.kafka.publish", "Publisher._send"),  # each record of a transaction
    "filled": ("lakehouse.spark.table.tables", "create_filled"),  # a restored table, or its state: not there | there
    "restored": ("lakehouse.run.repair.restore", "restore"),
    "transaction": ("lakehouse.kafka.publish", "Publisher.remember"),  # published, and not remembered in the lake
}


def source_of(topic: str) -> Any:
    if topic == ORDERS:
        return lh.stream(ORDERS, key="id string", schema="customer string, amount bigint")
    return lh.stream(OWN, key="id string", schema="amount bigint", format="kafka", own_table=True)


def application() -> lh.App:
    """Two topics, one with a bronze table of its own; a table over each, and a changelog in a topic."""
    orders, own = (source_of(name) for name in (ORDERS, OWN))
    totals = orders.group_by("customer").agg(n=lh.count(), amount=lh.sum("amount")).table("totals")
    return lh.app(totals, orders.latest("by_id"), own.latest("own"), totals.changes().to_topic(CHANGELOG))


def chain() -> lh.App:
    """A table behind a join of the two streams; a table of both tables' rows, sums of its rows, and their changelog."""
    orders, own = (source_of(name) for name in (ORDERS, OWN))
    pairs = orders.join(own, within="2 seconds", prefix="own_").group_by("id").agg(n=lh.count()).table("pairs")
    both = orders.latest("by_id").join(own.latest("own"), how="outer", prefix="own_").table("both")
    sums = (
        both.group_by("customer").agg(n=lh.count(), own=lh.sum("own_amount"), all=lh.collect_list("id")).table("sums")
    )
    return lh.app(pairs, sums.changes().to_topic(SUMS))


def joins() -> lh.App:
    """A left join of streams that waits; a left join by a foreign key, sums of its rows, and their changelog."""
    orders, own = (source_of(name) for name in (ORDERS, OWN))
    waiting = orders.join(own, within="1 second", how="left", grace="500 milliseconds", prefix="own_")
    pairs = waiting.group_by("id").agg(n=lh.count(), met=lh.count("own_amount"), own=lh.sum("own_amount"))
    referring = orders.with_columns(refers="concat('o', amount % 7)").latest("by_id")
    placed = referring.join(own.latest("own"), on="refers", how="left", prefix="own_").table("placed")
    by_customer = placed.group_by("customer")
    sums = by_customer.agg(n=lh.count(), own=lh.sum("own_amount"), all=lh.collect_list("id")).table("sums")
    return lh.app(pairs.table("pairs"), sums.changes().to_topic(SUMS))


def kill_at(point: str, when: str, nth: int) -> None:
    """Wrap the point, so that this process ends at its n-th call as if the power had gone."""
    module_name, path = POINTS[point]
    holder: Any = importlib.import_module(module_name)
    *owners, name = path.split(".")
    for owner in owners:
        holder = getattr(holder, owner)
    real = getattr(holder, name)
    calls = 0
    lock = threading.Lock()

    @functools.wraps(real)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            here = calls == nth
        if here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(holder, name, wrapped)


def kill_after_checkpoint(root: Path, query: str) -> None:
    """End this process as soon as Spark has written the query's first commit to its checkpoint."""

    def watch() -> None:
        # Silver's folder has a hash of what it writes behind its name.
        while not list((root / "control" / "checkpoints").glob(f"{query}*/commits/0")):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> None:
    folder, servers, *rest = arguments
    environ = {"LAKEHOUSE_LAKE_PATH": folder, "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}
    lake = Lake(settings=load(environ=environ, start=Path(folder)))
    stay = "--stay" in rest
    if "--small" in rest:
        transactions.RECORDS, transactions.TOO_LARGE = 4, 3
    for text in (part for part in rest if not part.startswith("--")):
        point, when, nth = text.split(":")
        if point == "checkpoint":
            kill_after_checkpoint(Path(folder), when)
        else:
            kill_at(point, when, int(nth))
    print("ready", flush=True)
    app = chain() if "--chain" in rest else joins() if "--joins" in rest else application()
    if stay:
        lake.run(app, listen=lambda event: print(event.kind, event.tick, flush=True))
    else:
        lake.run(app, until="caught_up")
    if "--damage" in rest:
        lake.spark.sql(f"UPDATE delta.`{folder}/silver/by_id` SET amount = -1")
    if "--backfill" in rest:
        lake.backfill(app, app.table("by_id"))
    if "--revert" in rest:
        lake.revert(app, app.table("by_id"), "tick:1")


if __name__ == "__main__":
    main(sys.argv[1:])
