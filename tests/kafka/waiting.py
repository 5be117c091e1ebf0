"""Two topics whose records wait for each other in joins of streams: declared, sent to Kafka, and kept for the model.

The records have times of their own, and payments have timestamps that are a little older: in one tick of a new lake
some that a changelog does not cover come before orders that it covers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import lakehouse as lh
from lakehouse.run.lake import Lake
from lakehouse.semantics.record import Record

from ..seeds import draw
from .sending import check_tables, send_records

T = 1_700_000_000_000
PARTITIONS = 4
TOPICS = ("wait-orders", "wait-payments")
ORDERS, PAYMENTS = (
    lh.stream(topic, key="id string", schema="who string, amount bigint, at bigint", event_time="at")
    for topic in TOPICS
)
SPAN = {"before": "5 seconds", "after": "20 seconds", "grace": "10 seconds"}
# Unmatched rows come when the grace ends.
OUTER = ORDERS.join(PAYMENTS, **SPAN, how="outer", prefix="p_")


def pairs(stream: lh.Stream, name: str) -> lh.Table:
    return (
        stream.group_by("id")
        .agg(rows=lh.count(), amounts=lh.collect_list("amount"), paid=lh.collect_list("p_amount"))
        .table(name)
    )


def published(*tables: lh.Table) -> lh.App:
    return lh.app(*[table.changes().to_topic(topic_of(table)) for table in tables])


def topic_of(table: lh.Table) -> str:
    return f"wait-{table.name}"


class Sent:
    """The records of both topics, in all partitions. Each round is a tick of the lake that runs."""

    def __init__(self, cluster: Any, send: Callable[..., int]) -> None:
        self._send, self._dice, self.records, self._tick = send, Random(draw()), list[Record](), 0
        self._later = 0
        for topic in cluster.names():
            if topic.startswith("wait-"):
                cluster.delete(topic)
        for topic in TOPICS:
            cluster.create(topic, PARTITIONS)

    def more(self, count: int, minutes: int = 0) -> None:
        """Send records whose event times go on, not quite in order; so many minutes later; some to each partition."""
        dice, first = self._dice, len(self.records)
        places = dice.sample([(topic, key) for topic in TOPICS for key in "1234"], k=2 * PARTITIONS)
        self._tick += 1
        self._later += minutes * 60_000
        for number in range(first, first + count):
            topic, key = places.pop() if places else (dice.choice(TOPICS), dice.choice("123456"))
            stamp = T + number * 1000 - (3_000 if topic == TOPICS[1] else 0)
            at = T + number * 1000 + self._later - dice.choice((0, 0, 2000, 4000))
            value = dice.choice(({"who": dice.choice("ab"), "amount": number, "at": at},) * 9 + (None,))
            data = None if value is None else json.dumps(value).encode()
            place = int(key) % PARTITIONS
            offset = sum((item.topic, item.partition) == (topic, place) for item in self.records)
            self.records.append(Record(topic, topic, place, offset, stamp, key.encode(), data, self._tick, stamp))
        send_records(self._send, TOPICS, self.records[first:])

    def check(self, lake: Lake, app: lh.App) -> None:
        check_tables(lake, app, self.records)
