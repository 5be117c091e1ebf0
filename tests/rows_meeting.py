"""An application in which one record changes both sides of joins, and histories of equal times, for model and Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import lakehouse as lh
from lakehouse.plan.app import App
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record

from .rows import SCHEMA, A, B

ARRIVALS = lh.stream("a", key="k string", schema=SCHEMA)
OTHERS = lh.stream("b", key="k string", schema="g string, n bigint")

# A record of topic a changes the left row, and up to two rows on the right.
PARENTS = A.join(A, on="to", how="left", prefix="p_").table("parents")
COUNTS = A.group_by("to").agg(refer=lh.count(), most=lh.max("n")).having("refer > 0").table("counts")
COUNTED = A.join(COUNTS, on="to", how="left", prefix="c_").table("counted")
OF_COUNTS = COUNTS.join(B, how="outer", prefix="b_").table("of_counts")
GROUPS = (
    COUNTED.group_by("c_refer")
    .agg(rows=lh.count(), listed=lh.collect_list("n"), total=lh.sum("c_most"))
    .table("groups")
)
# Rows that a later record does not replace, and whose deletes are remembered.
LARGEST = ARRIVALS.latest("largest", order_by="coalesce(n, 0)")
BY_LARGEST = B.join(LARGEST, how="left", prefix="l_").table("by_largest")
# Streams and tables of rows, one over the other.
PAIRS = ARRIVALS.join(OTHERS, within="3 seconds", grace="2 seconds", how="outer", prefix="o_").latest("pairs")
PLACED = PAIRS.join(COUNTED, on="to", prefix="t_").table("placed")
SEEN = OTHERS.join(COUNTED, how="left", prefix="t_").group_by("t_g").agg(n=lh.count(), most=lh.max("t_n")).table("seen")
MOVES = PLACED.to_stream().group_by("t_g").agg(n=lh.count(), last=lh.latest("n")).table("moves")

APP: App = lh.app(PARENTS, OF_COUNTS, GROUPS, BY_LARGEST, PLACED, SEEN, MOVES)

# Rows of windows: sessions that grow and merge, windows that are shown when they close.
GROUPED = ARRIVALS.group_by("to")
SESSIONS = GROUPED.window(lh.session("2 seconds", grace="1 hour")).agg(n=lh.count(), m=lh.max("n")).table("sessions")
TUMBLING = GROUPED.window(lh.tumbling("5 seconds", grace="1 hour")).agg(n=lh.count()).table("tumbling")
CLOSED = GROUPED.window(lh.tumbling("5 seconds", grace="0 seconds")).agg(n=lh.count()).table("closed", emit="final")
WINDOWS = (SESSIONS, TUMBLING, CLOSED)
WINDOWED: App = lh.app(
    *[table.filter("n > 1").table(f"{table.name}_large") for table in WINDOWS],
    *[table.group_by("n").agg(rows=lh.count()).having("rows > 0").table(f"{table.name}_by_n") for table in WINDOWS],
)


def records(seed: int, size: int, ticks: int, names: str = "uvwxyz") -> list[Record]:
    """Return records of both topics in three partitions: many of equal times, and partitions that are read late."""
    dice = Random(seed)
    made: list[Record] = []
    timestamps: dict[tuple[str, int], list[int]] = {}
    ends = sorted(dice.sample(range(1, size), ticks - 1))
    lags = {(topic, part): dice.choice((0, 0, 1)) for topic in "ab" for part in range(3)}
    for number in range(size):
        topic, key = dice.choice("aab"), dice.choice([*names, *names, None])
        partition = 0 if key is None else ord(key) % 3
        seen = timestamps.setdefault((topic, partition), [])
        seen.append(1_700_000_000_000 + (number // 5 + dice.choice((0, 0, 0, -1, -4))) * 1000)
        value = {"g": dice.choice((None, "g", "h")), "n": dice.choice((None, 0, 1, 2, 3))}
        value |= {"to": dice.choice((None, *names))} if topic == "a" else {}
        data = dice.choice((json.dumps(value).encode(),) * 5 + (None,))
        tick = min(sum(end <= number for end in ends) + 1 + lags[topic, partition], ticks)
        place = topic, f"replay-{topic}", partition, len(seen) - 1
        made.append(Record(*place, seen[-1], None if key is None else key.encode(), data, tick, order_times(seen)[-1]))
    numbers = {tick: number for number, tick in enumerate(sorted({record.tick for record in made}), 1)}
    return [replace(record, tick=numbers[record.tick]) for record in made]
