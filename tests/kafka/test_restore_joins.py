"""Tables behind joins of streams, restored from their changelogs in the middle of open pairs: they go on.

Compared with the model, which sees all records at once, in the order of the lakes' ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakehouse.errors import StorageError
from lakehouse.kafka import covers

from .sending import check_published
from .waiting import ORDERS, OUTER, PARTITIONS, PAYMENTS, SPAN, TOPICS, Sent, pairs, published, topic_of

pytestmark = pytest.mark.slow

# A topic with itself; a join over a join.
SELF = PAYMENTS.join(PAYMENTS, within="10 seconds", grace="10 seconds", how="left", prefix="p_")
BY_TIME = PAYMENTS.join(ORDERS.latest("ordered"), how="left", as_of="event time", prefix="p_")
TWICE = ORDERS.join(PAYMENTS, **SPAN, prefix="p_").join(ORDERS.drop("who"), **SPAN, how="left", prefix="q_")


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
    for table in app.tables:
        check_published(app, table, sent.records, records(topic_of(table)))


def test_records_that_can_matter_no_more_may_be_gone_and_others_not(lake, cluster, broker, sent) -> None:
    app = published(pairs(OUTER, "gone"))
    (table,) = app.tables
    for minutes in (0, 10):
        sent.more(40, minutes)
        lake("a").run(app, until="caught_up")
    cover = covers.read_newest_cover(cluster, {}, topic_of(table))
    assert cover is not None
    assert cover.needed is not None
    facts = cluster.topics(TOPICS)
    begins = {(topic, int(place)): begin for topic in TOPICS for place, begin in cover.needed[facts[topic].id].items()}
    assert len(begins) > PARTITIONS
    assert all(0 < begin < cover.next[facts[topic].id][str(place)] for (topic, place), begin in begins.items())
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def remove(ahead: int) -> None:
        """Remove the records before those that count, and some more."""
        wanted = [TopicPartition(*place, begin + ahead) for place, begin in begins.items()]
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
    for done in admin.delete_records([TopicPartition(TOPICS[0], 3, 1)]).values():
        done.result()
    with pytest.raises(StorageError, match="wait-orders/3 begins at offset 1, and those from 0 on count"):
        lake("d").restore(table, topic_of(table))
