"""Tables behind joins of streams, restored from their changelogs in the middle of open pairs: they go on.

Compared with the model, which sees all records at once, in the order of the lakes' ticks.

The records have times of their own, and payments have timestamps that are a little older: in one tick of a new lake
some that the changelog does not cover come before orders that it covers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.formats.decode import decode
from lakehouse.kafka import covers
from lakehouse.model import model
from lakehouse.run.lake import Lake
from lakehouse.semantics.record import Record

from .sending import check_tables, send_records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

T = 1_700_000_000_000
TOPICS = ("wait-orders", "wait-payments")
ORDERS, PAYMENTS = (
    lh.stream(topic, key="id string", schema="who string, amount bigint, at bigint", event_time="at")
    for topic in TOPICS
)
SPAN = {"before": "5 seconds", "after": "20 seconds", "grace": "10 seconds"}
INNER = ORDERS.join(PAYMENTS, **SPAN, prefix="p_")
# Unmatched rows come when the grace ends; a topic with itself; a join over a join.
OUTER = ORDERS.join(PAYMENTS, **SPAN, how="outer", prefix="p_")
SELF = PAYMENTS.join(PAYMENTS, within="10 seconds", grace="10 seconds", how="left", prefix="p_")
BY_TIME = PAYMENTS.join(ORDERS.latest("ordered"), how="left", as_of="event time", prefix="p_")
TWICE = INNER.join(ORDERS.drop("who"), **SPAN, how="left", prefix="q_")


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
    """The records of both topics: sent to Kafka, and kept for the model. Each round is a tick of the lake that runs."""

    def __init__(self, cluster: Any, send: Callable[..., int]) -> None:
        self._send, self._dice, self.records, self._tick = send, Random(7), list[Record](), 0
        self._later = 0
        for topic in cluster.names():
            if topic.startswith("wait-"):
                cluster.delete(topic)
        for topic in TOPICS:
            cluster.create(topic)

    def more(self, count: int, minutes: int = 0) -> None:
        """Send records whose event times go on, not quite in order; so many minutes later."""
        dice, first = self._dice, len(self.records)
        self._tick += 1
        self._later += minutes * 60_000
        for number in range(first, first + count):
            topic = dice.choice(TOPICS)
            stamp = T + number * 1000 - (3_000 if topic == TOPICS[1] else 0)
            at = T + number * 1000 + self._later - dice.choice((0, 0, 2000, 4000))
            value = dice.choice(({"who": dice.choice("ab"), "amount": number, "at": at},) * 9 + (None,))
            data, key = None if value is None else json.dumps(value).encode(), dice.choice("123456")
            offset = sum(one.topic == topic for one in self.records)
            self.records.append(Record(topic, topic, 0, offset, stamp, key.encode(), data, self._tick, stamp))
        send_records(self._send, TOPICS, self.records[first:])

    def check(self, lake: Lake, app: lh.App) -> None:
        check_tables(lake, app, self.records)


@pytest.fixture
def sent(cluster: Any, send: Callable[..., int]) -> Sent:
    return Sent(cluster, send)


def test_records_that_wait_meet_those_that_come_after_a_restore(lake, sent, records) -> None:
    """Two generations; cut in the middle of open pairs."""
    joined = {"outer": OUTER, "self": SELF, "twice": TWICE}
    app = published(*[pairs(stream, name) for name, stream in joined.items()])
    sent.more(30)
    lake("a").run(app, until="caught_up")
    for name in ("b", "c"):
        one = lake(name)
        for table in app.tables:
            one.restore(table, topic_of(table))
        sent.more(20)
        one.run(app, until="caught_up")
        sent.check(one, app)
    audit = one.audit(app, app.tables[0])
    assert (audit.problems, len(audit.notes)) == ([], 1)
    assert "restored from a topic" in audit.notes[0]
    expected = model.run(app, sent.records, decode)
    for table in app.tables:
        changes = [(change.key, change.value) for change in expected.changelogs[table.name]]
        told = [(m.key().decode(), json.loads(m.value())) for m in records(topic_of(table))]
        assert told == [(key[0], value) for key, value in changes], table.name


def test_records_that_can_matter_no_more_may_be_gone_and_others_not(lake, cluster, broker, sent) -> None:
    app = published(pairs(OUTER, "gone"))
    (table,) = app.tables
    for minutes in (0, 10):
        sent.more(15, minutes)
        lake("a").run(app, until="caught_up")
    cover = covers.newest(cluster, {}, topic_of(table))
    assert cover is not None
    assert cover.needed is not None
    facts = cluster.topics(TOPICS)
    begins = {topic: cover.needed[facts[topic].id]["0"] for topic in TOPICS}
    assert all(0 < begins[topic] < cover.next[facts[topic].id]["0"] for topic in TOPICS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def remove(ahead: int) -> None:
        """Remove the records before those that count, and some more."""
        wanted = [TopicPartition(topic, 0, begin + ahead) for topic, begin in begins.items()]
        for done in admin.delete_records(wanted).values():
            done.result()

    remove(0)
    one = lake("b")
    one.restore(table, topic_of(table))
    sent.more(10)
    one.run(app, until="caught_up")
    sent.check(one, app)
    remove(1)
    with pytest.raises(StorageError, match=r"Kafka does not have all of them any more: wait-\S+ begins at offset"):
        lake("c").restore(table, topic_of(table))
    assert not (Path(lake("c").settings.lake.path) / "silver").exists()


def test_what_rows_were_at_earlier_times_is_told_by_the_whole_topic(lake, broker, sent) -> None:
    """Two generations. In one tick the records of the topic that is looked up come after all others."""
    table = pairs(BY_TIME, "timed")
    app = published(table)
    sent.more(30)
    lake("a").run(app, until="caught_up")
    for name in ("b", "c"):
        one = lake(name)
        one.restore(table, topic_of(table))
        sent.more(20)
        one.run(app, until="caught_up")
        sent.check(one, app)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(TOPICS[0], 0, 1)]).values():
        done.result()
    with pytest.raises(StorageError, match="wait-orders/0 begins at offset 1, and those from 0 on count"):
        lake("d").restore(table, topic_of(table))
