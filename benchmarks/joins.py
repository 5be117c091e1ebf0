"""Each kind of join: a batch of clicks, each of which finds one of the users.

    .venv/bin/python benchmarks/joins.py [--clicks N] [--users N ...] [--joins NAME ...] [--quick]

Kafka and ingest are left out: bronze is written first. The first tick has all users, the second all clicks, the third
1% of the users again, changed. Shown are the seconds that each takes, for all tables of an application, in one process
that is warm; every result is checked. `--quick`: 100,000 clicks, 1,000 and 100,000 users.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from common import show
from pyspark.sql import SparkSession
from rows import write_tick

import lakehouse as lh
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.stream import Stream
from lakehouse.settings.config import load
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

CLICKS = lh.stream("clicks", key="id string", schema="user string, amount bigint")
USERS = lh.stream("users", key="name string", schema="city string")
USER, CLICK = USERS.latest("user_now"), CLICKS.latest("click_now")
BY_USER = CLICKS.rekey("user AS name").group_by("name").agg(n=lh.count()).table("by_user")
CHANGED = 100  # one user in so many


def counted(stream: Stream) -> App:
    """The clicks per city: a small table, so that what is measured is the join."""
    return lh.app(stream.group_by("city").agg(n=lh.count()).table("joined"), USER)


JOINS = {
    "no join": lh.app(CLICKS.group_by("amount % 100 AS city").agg(n=lh.count()).table("joined"), USER),
    "stream-table": counted(CLICKS.join(USER, on="user")),
    "stream-table, left": counted(CLICKS.join(USER, on="user", how="left")),
    "stream-table, broadcast": counted(CLICKS.join(USER, on="user", broadcast=True)),
    "stream-table, as of event time": counted(CLICKS.join(USER, on="user", as_of="event time")),
    "stream-stream, an hour": counted(CLICKS.join(USERS, on="user", within="1 hour")),
    "table-table, by key": lh.app(USER.join(BY_USER, how="left").table("joined")),
    "table-table, by a foreign key": lh.app(CLICK.join(USER, on="user").table("joined")),
}


def bronze(root: Path, clicks: int, users: int) -> None:
    """Write the three ticks."""
    dice, offsets = random.Random(1), dict[str, int]()
    everyone = {f"u{n}": b'{"city": "city %d"}' % (n % 100) for n in range(users)}
    made = {f"k{n}": b'{"user": "u%d", "amount": %d}' % (dice.randrange(users), n % 1000) for n in range(clicks)}
    moved = {f"u{n}": b'{"city": "city %d"}' % ((n + 1) % 100) for n in range(0, users, CHANGED)}
    for tick, topics in enumerate(({"users": everyone}, {"clicks": made}, {"users": moved}), 1):
        write_tick(root, tick, topics, offsets)


def seconds(spark: SparkSession, name: str, root: Path, clicks: int, users: int) -> list[float]:
    """Return the seconds that each tick takes. Ends if the result is not right."""
    layout, found = Layout(str(root)), []
    lake = open_lake(spark, layout)
    with Silver(lake, JOINS[name], lambda tick, records: None) as silver:
        for tick in (1, 2, 3):
            began = time.monotonic()
            silver.catch_up(tick)
            found.append(time.monotonic() - began)
    rows = lake.read(layout.silver("joined"))
    # A stream join meets the changed users as well: the clicks of these come once more.
    if name.startswith("table-table, by a foreign"):
        wrong = rows.count() != clicks
    elif name.startswith("table-table"):
        wrong = rows.count() != users or rows.agg({"n": "sum"}).first() != (clicks,)
    else:
        first = rows.agg({"n": "sum"}).first()
        again = first[0] - clicks if first is not None else -1
        wrong = not 0 <= again <= clicks if name.startswith("stream-stream") else again != 0
    if wrong:
        raise SystemExit(f"{name}: the joined rows are not those of {clicks} clicks and {users} users")
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clicks", type=int, default=1_000_000)
    arguments.add_argument("--users", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    arguments.add_argument("--joins", nargs="+", choices=list(JOINS), default=list(JOINS))
    arguments.add_argument("--quick", action="store_true")
    chosen = arguments.parse_args()
    if chosen.quick:
        chosen.clicks, chosen.users = 100_000, [1_000, 100_000]
    spark = open_session(load(environ={}))
    lines = []
    for users in chosen.users:
        for name in chosen.joins:
            with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as folder:
                bronze(Path(folder), chosen.clicks, users)
                taken = seconds(spark, name, Path(folder), chosen.clicks, users)
            lines.append([f"{users:,}", name, *(f"{of:.1f}" for of in taken)])
            print(lines[-1], flush=True)
    columns = ["users", "join", "the users", f"{chosen.clicks:,} clicks", "1% of the users"]
    show(f"{chosen.clicks:,} clicks, seconds", columns, lines)


if __name__ == "__main__":
    main()
