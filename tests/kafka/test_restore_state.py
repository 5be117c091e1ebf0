"""Tables that keep more than they show, restored from two topics: the changelog, and the one of what they keep.

Compared with the model, which sees all records at once, as a lake that never stopped would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound, PlanError, StorageError
from lakehouse.formats.decode import decode_record
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.plan.table import Table
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import rows_of
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

from ..seeds import draw

pytestmark = pytest.mark.slow

T = 1_700_000_000_000
PAID = lh.stream("kept-in", key="id string", schema="who string, amount bigint, at bigint", event_time="at")
BY_WHO = PAID.group_by("who")
MINUTE, GAP = lh.tumbling("1 minute", grace="20 seconds"), lh.session("15 seconds", grace="20 seconds")

# HAVING that begins and ceases to hold; in windows that expire; and a table of such rows.
SMALL = BY_WHO.agg(n=lh.count(), total=lh.sum("amount"), last=lh.latest("amount")).having("total < 9").table("small")
ODD = (
    BY_WHO.window(MINUTE).agg(n=lh.count(), all=lh.collect_list("amount")).having("n > 1")
    .table("odd", retention="5 minutes")
)  # fmt: skip
ABOVE = SMALL.group_by("who").agg(n=lh.count(), sums=lh.sum("total"), least=lh.min("last")).table("above")
# Final results: folded in SQL, and by the rules in Python.
MINUTES = BY_WHO.window(MINUTE).agg(n=lh.count(), mean=lh.avg("amount")).table("minutes", emit="final")
VISITS = (
    BY_WHO.window(GAP).agg(n=lh.count(), all=lh.collect_list("amount")).having("n > 1").table("visits", emit="final")
)
# An order of their own: deletes leave markers, for ever, or for a while.
NEWEST = PAID.latest("newest", order_by="rowtime")
RECENT = PAID.latest("recent", order_by="rowtime", retention="1 minute")
# It shows all that it keeps; rows leave with time, which no change tells.
BRIEF = BY_WHO.window(MINUTE).agg(n=lh.count()).table("brief", retention="2 minutes")
# A mean stays as it is while the sum and the count of it change.
STEADY = BY_WHO.agg(mean=lh.avg("CASE WHEN amount > 5 THEN 10 ELSE 0 END")).table("steady", suppress=True)

TOGETHER = (SMALL, ABOVE, ODD), (MINUTES, VISITS), (NEWEST, RECENT), (STEADY, BRIEF)


def topic_of(table: Table) -> str:
    return f"kept-{table.name}"


def published(*tables: Table) -> lh.App:
    return lh.app(*[table.changes().to_topic(topic_of(table)) for table in tables])


class Sent:
    """The records of a topic of two partitions: sent to Kafka, and kept for the model. Some come late, or too late."""

    def __init__(self, cluster: Any, send: Callable[..., int]) -> None:
        self._send, self._dice, self.records = send, Random(draw()), list[Record]()
        for topic in cluster.names():
            if topic.startswith("kept-"):
                cluster.delete(topic)
        cluster.create("kept-in", 2)

    def more(self, count: int) -> None:
        """Send records that are all written later than those before: then no batch changes their order."""
        dice, first = self._dice, len(self.records)
        for _ in range(count):
            time = T + len(self.records) * 5000
            at = time - dice.choice((0, 0, 0, 4000, 30_000, 200_000))
            value = {"who": dice.choice("abcdef"), "amount": dice.randrange(-6, 8), "at": at}
            data = dice.choice((json.dumps(value),) * 5 + (None,))
            partition, key = dice.randrange(2), dice.choice("123456")
            offset = sum(item.partition == partition for item in self.records)
            held = None if data is None else data.encode()
            self.records.append(Record("kept-in", "kept-in", partition, offset, time, key.encode(), held, 1, time))
        self._send("kept-in", [
            (item.key.decode(), None if item.value is None else item.value.decode(), item.timestamp, item.partition)
            for item in self.records[first:] if item.key is not None
        ])  # fmt: skip

    def check(self, lake: Lake, app: lh.App, records: Callable[[str], list[Any]]) -> None:
        """Compare all tables, and what all lakes have published, with what the model makes of all records."""
        expected = model.run(app, self.records, decode_record)
        for table in app.tables:
            self.check_rows(lake, table, expected)
            told: dict[str, list[Any]] = {}
            for message in sorted(records(topic_of(table)), key=lambda one: one.partition()):
                key = message.key().decode()
                told.setdefault(json.loads(key)["who"] if table.windows else key, []).append(
                    None if message.value() is None else json.loads(message.value())
                )
            wanted: dict[str, list[Any]] = {}
            for change in expected.changelogs[table.name]:
                wanted.setdefault(change.key[0], []).append(change.value)
            assert told == wanted, table.name

    def check_rows(self, lake: Lake, table: Table, expected: model.Result) -> None:
        result = rows_of(table, lake.read(table).toArrow().to_pylist(maps_as_pydicts="strict"))
        assert result == expected.tables[table.name], table.name


@pytest.fixture
def sent(cluster: Any, send: Callable[..., int]) -> Sent:
    return Sent(cluster, send)


@pytest.mark.parametrize("tables", TOGETHER, ids=repr)
def test_tables_that_show_less_than_they_keep_go_on_from_lake_to_lake(tables, lake, sent, records) -> None:
    """Two generations: what was hidden or open at the cut is there when it is needed, and nothing is given twice.

    One of the tables is made of the rows of another one, and restored after it.
    """
    app, one = published(*tables), lake("a")
    sent.more(25)
    one.run(app, until="caught_up")
    sent.more(15)
    one.run(app, until="caught_up")
    sent.check(one, app, records)
    for name in ("b", "c"):
        before, one = one, lake(name)
        for table in tables:
            assert one.restore(table, topic_of(table)) == one.read(table).count() == before.read(table).count()
            opened = open_lake(one.spark, Layout(one.settings.lake.path)).open(table)
            assert (opened.state != opened.visible) is table.has_state
        sent.more(25)
        one.run(app, until="caught_up")
        sent.check(one, app, records)
    # Another topic gets what was restored first, seen and hidden, so that it can be restored from as well.
    one.run(lh.app(tables[0].changes().to_topic("kept-apart")), until="caught_up")
    last, alone = lake("d"), lh.app(tables[0])
    last.restore(tables[0], "kept-apart")
    sent.more(10)
    last.run(alone, until="caught_up")
    sent.check_rows(last, tables[0], model.run(alone, sent.records, decode_record))


def test_a_state_that_is_lost_or_was_never_published_is_refused(lake, cluster, sent, records, broker: Broker) -> None:
    app, topic = published(SMALL), topic_of(SMALL)
    state, one = f"{topic}-state", lake("a")
    sent.more(25)
    one.run(app, until="caught_up")
    (kept, seen) = ({message.key() for message in records(name)} for name in (state, topic))
    assert kept >= seen
    cover = records(f"{topic}-covers")[-1]

    def claim(**other: Any) -> None:
        """Write a cover as another program would."""
        value = json.dumps({**json.loads(cover.value()), **other}).encode()
        produce(broker.bootstrap_servers, {}, cover.topic(), [ProducerRecord(cover.key(), value, T)])

    claim(state=None)
    with pytest.raises(PlanError, match=r"leaves out some of what table 'small' keeps .* or left more out for a while"):
        lake("b").restore(SMALL, topic)
    one.run(app, until="caught_up")  # it goes on, and says nothing about the state
    claim()
    headers = tuple((name, value) for name, value in records(state)[-1].headers() if "origin" not in name)
    forged = ProducerRecord(b"a", None, T, (*headers, ("lakehouse.origin", b"another/small")))
    produce(broker.bootstrap_servers, {}, state, [forged])
    with pytest.raises(NotFound, match=rf"record {state}/\d@\d+ is of another/small, expected 'small'"):
        lake("b").restore(SMALL, topic)
    cluster.delete(state)
    with pytest.raises(StorageError, match=f"'{state}', which has what table 'small' keeps.* was deleted"):
        lake("b").restore(SMALL, topic)
    sent.more(1)
    with pytest.raises(StorageError, match=f"'{state}'.* was deleted, or made anew.*Delete both"):
        one.run(app, until="caught_up")
    cluster.delete(topic)
    one.run(app, until="caught_up")  # as the message says: all of it is published again
    assert lake("b").restore(SMALL, topic) == one.read(SMALL).count()
    cluster.delete(topic)
    with pytest.raises(StorageError, match=f"topic '{state}' has records, and nothing says which table they are of"):
        one.run(app, until="caught_up")
    net = lh.app(SMALL.changes(net=True).to_topic("kept-net"))
    one.run(net, until="caught_up")
    with pytest.raises(PlanError, match="the topic has the net changes, or left more out"):
        lake("c").restore(SMALL, "kept-net")
