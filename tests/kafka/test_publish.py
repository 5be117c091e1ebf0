"""A changelog in a topic: what is in it, each change once after any kill, and a lake restored from it alone."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Message

import lakehouse as lh
from lakehouse.errors import JobFailed, NotFound, StorageError
from lakehouse.kafka.covers import parse_cover
from lakehouse.kafka.headers import EVENT_TIME, POSITION
from lakehouse.kafka.publish import Publisher
from lakehouse.lake.layout import Layout
from lakehouse.run.job import transactions
from lakehouse.run.job.publishing import Publishing
from lakehouse.run.lake import Lake

T = 1_700_000_000_000


def orders(topic: str) -> lh.Stream:
    return lh.stream(
        topic, key="id string", schema="customer string, amount decimal(10, 2), weight double, at bigint",
        event_time="at",
    )  # fmt: skip


def order(n: int, customer: str, amount: str, weight: float, partition: int | None = None) -> tuple[Any, ...]:
    value = {"customer": customer, "amount": Decimal(amount), "weight": weight, "at": T + 1000 * n}
    return (f"o{n % 7}", json.dumps(value, default=float), T + n, partition)


def headers(message: Message) -> dict[str, bytes]:
    return dict(message.headers() or [])


def facts(message: Message) -> tuple[Any, ...]:
    """Partition, key, value, event time and position of the changelog's records."""
    value = message.value()
    said = headers(message)
    return (
        message.partition(), message.key(), json.loads(value) if value is not None else None,
        int(said[EVENT_TIME]), json.loads(said[POSITION]),
    )  # fmt: skip


def place(message: Message) -> tuple[int | None, int | None]:
    return message.partition(), message.offset()


def by_key(items: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    return {key: [item for item in items if item[0] == key] for key, *_ in items}


def rows(lake: Lake, table: lh.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.read(table).collect())


@pytest.mark.slow
def test_the_changelog_of_a_table_is_published_once_over_restarts(lake, cluster, send, records) -> None:
    cluster.create("pub-in", partitions=3)
    words = lh.stream("pub-in", key="k string", schema="word string", format="kafka").latest("words")
    app = lh.app(words.changes().to_topic("pub-words"))
    one = lake()
    batches = [
        [("a", "1", T + 5), ("b", "2", T + 6), ("c", "3", T + 7)],
        [("a", None, T + 8), ("b", "4", T + 1), (None, "nobody", T)],
        [("a", "5", T + 9), ("zz", None, T + 10)],
    ]
    wanted = []
    for batch in batches:
        send("pub-in", batch)
        one.run(app, until="caught_up")
        wanted += [(k.encode(), {"word": v} if v is not None else None, ts) for k, v, ts in batch if k is not None]
    actual = records("pub-words")
    source = {(m.key(), m.timestamp()[1]): m.partition() for m in records("pub-in")}
    assert by_key([facts(m)[1:4] for m in actual]) == by_key(wanted)
    for message in actual:
        partition, key, _, stamp, position = facts(message)
        assert partition == source[key, stamp]  # a key keeps its partition
        assert message.timestamp()[1] == stamp
        assert position[2:4] == ["pub-in", partition]
    changes = one.changes(words).collect()
    positions = sorted(list(row["_position"]) for row in changes)
    assert sorted(facts(m)[4] for m in actual) == positions
    covered = [parse_cover(m.value(), "") for m in records("pub-words-covers")]
    assert [cover.tick for cover in covered] == [1, 2, 3]
    topic_id = cluster.topics(["pub-in"])["pub-in"].id
    ends = {str(p): end for (_, p), (_, end) in cluster.offsets(("pub-in", p) for p in range(3)).items() if end}
    assert covered[-1].next == {topic_id: ends}
    assert cluster.config("pub-words")["cleanup.policy"] == "compact"


@pytest.mark.slow
def test_a_new_sink_publishes_the_whole_history_and_a_crash_before_publishing_loses_nothing(
    lake, cluster, send, records, monkeypatch
) -> None:
    cluster.create("pub-old")
    visits = lh.stream("pub-old", key="k string", schema="word string", format="kafka")
    counted = visits.group_by("word").agg(n=lh.count()).table("counted")
    one = lake()
    for word in ("x", "y"):
        send("pub-old", [("k", word, T), ("k", "x", T)])
        one.run(lh.app(counted), until="caught_up")
    app = lh.app(counted.changes().to_topic("pub-counted"))
    one.run(app, until="caught_up")
    history = [(b"x", {"n": 1}), (b"x", {"n": 2}), (b"y", {"n": 1}), (b"x", {"n": 3})]
    assert [facts(m)[1:3] for m in records("pub-counted")] == history

    def killed(self: Publishing, tick: int, limit: object) -> dict[str, int]:
        if tick == 3:
            raise OSError("out of power")  # after every MERGE of the batch, before its transaction
        return {}

    send("pub-old", [("k", "y", T)])
    with monkeypatch.context() as patched:
        patched.setattr(Publishing, "publish", killed)
        with pytest.raises(JobFailed, match="out of power"):
            one.run(app, until="caught_up")
    assert rows(one, counted) == [("x", 3), ("y", 2)]
    assert len(records("pub-counted")) == 4
    one.run(app, until="caught_up")
    assert [facts(m)[1:3] for m in records("pub-counted")] == [*history, (b"y", {"n": 2})]


@pytest.mark.slow
def test_a_lake_restored_from_the_topics_alone_goes_on(lake, cluster, send, records) -> None:
    cluster.create("pub-orders", partitions=2)
    stream = orders("pub-orders")
    last = stream.rekey("customer").latest("last")
    totals = (
        stream.group_by("customer")
        .agg(n=lh.count(), amount=lh.sum("amount"), weight=lh.sum("weight"), whole=lh.sum("cast(amount as bigint)"))
        .table("totals")
    )
    by_id = stream.latest("by_id")
    sinks = [t.changes().to_topic(f"pub-{t.name}") for t in (last, totals, by_id)]
    app = lh.app(*sinks)
    first = lake("first")
    customers = ["ann", "bob", "cyd"]
    made = [order(n, customers[n % 3], f"{n}.{n % 10}7", 0.1 * n, n % 2) for n in range(30)]
    send("pub-orders", [*made, ("o3", None, T, 1), ("o4", None, T, 0)])
    first.run(app, until="caught_up")
    send("pub-orders", [order(n, customers[n % 2], "-1.05", 1e-3 * n, n % 2) for n in range(30, 40)])
    first.run(app, until="caught_up")

    second = lake("second")
    for sink in sinks:
        assert isinstance(sink.source, lh.Table)
        count = second.restore(sink.source, sink.topic)
        assert rows(second, sink.source) == rows(first, sink.source)
        assert count == len(rows(first, sink.source))
    with pytest.raises(StorageError, match="table 'last' exists"):
        second.restore(last, "pub-last")
    more = [order(n, customers[n % 3], "0.01", 1 / 3, n % 2) for n in range(40, 47)]
    send("pub-orders", [*more, ("o1", None, T, 0), ("o1", None, T, 1)])
    known = {sink.topic: {place(m) for m in records(sink.topic)} for sink in sinks}
    second.run(app, until="caught_up")
    first.run(lh.app(*app.tables), until="caught_up")
    for table in app.tables:
        assert rows(second, table) == rows(first, table), table.name
        # The topic goes on where the first lake's changelog ended: each later record's change, once.
        topic = f"pub-{table.name}"
        added = [m for m in records(topic) if place(m) not in known[topic]]
        (key,) = table.key
        wanted = [(row[key].encode(), list(row["_position"])[2:]) for row in first.changes(table, after=2).collect()]
        assert sorted((m.key(), facts(m)[4][2:]) for m in added) == sorted(wanted), table.name
    with pytest.raises(NotFound, match="expected a changelog that lakehouse published"):
        lake("third").restore(last, "pub-orders")


@pytest.mark.slow
def test_a_tick_that_was_published_in_part_goes_on_where_it_ended(lake, cluster, send, records, monkeypatch) -> None:
    """All that was published had to be one transaction, and so within 900 seconds."""
    monkeypatch.setattr(transactions, "RECORDS", 3)
    monkeypatch.setattr(transactions, "TOO_LARGE", 2)
    cluster.create("pub-much", partitions=2)
    stream = lh.stream("pub-much", key="k string", schema="word string", format="kafka")
    counted = stream.group_by("word").agg(n=lh.count()).table("counted")
    topics = ("pub-much-each", "pub-much-net", "pub-much-raw")
    app = lh.app(
        counted.changes().to_topic(topics[0]), counted.changes(net=True).to_topic(topics[1]), stream.to_topic(topics[2])
    )
    one, publish = lake(), Publisher.publish
    send("pub-much", [(f"k{n}", f"w{n % 9}", T + n, n % 2) for n in range(20)])
    for written in (2, 4):
        left = written

        def failing(self: Publisher, *given: Any) -> int:
            nonlocal left
            if left == 0:
                raise OSError("out of power")
            left -= 1
            return publish(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(Publisher, "publish", failing)
            with pytest.raises((JobFailed, OSError), match="out of power"):  # in a batch, or before the first one
                one.run(app, until="caught_up")
        if written == 2:
            with pytest.raises(StorageError, match=r"published in part \(12 records\)"):
                lake("early").restore(counted, topics[0])
    send("pub-much", [("k", "w0", T + 99, 0)])
    one.run(app, until="caught_up")
    each = [(row["word"].encode(), {"n": row["n"]}, list(row["_position"])) for row in one.changes(counted).collect()]
    assert by_key([(k, v, p) for _, k, v, _, p in map(facts, records(topics[0]))]) == by_key(each)
    net = [(row["word"].encode(), {"n": row["n"]}) for row in one.changes(counted, net=True).collect()]
    assert by_key([facts(m)[1:3] for m in records(topics[1])]) == by_key(net)
    places = [facts(m)[4][3:5] for m in records(topics[2])]
    assert sorted(places) == sorted([m.partition(), m.offset()] for m in records("pub-much"))


@pytest.mark.slow
def test_a_stream_keeps_null_keys_and_null_values(lake, cluster, send, records) -> None:
    cluster.create("pub-raw", partitions=2)
    stream = lh.stream("pub-raw", key="k string", schema="word string", format="kafka")
    app = lh.app(stream.to_topic("pub-copy", partitions=1))
    sent = [("a", "1"), (None, "2"), ("b", None), ("a", ""), (None, None)]
    send("pub-raw", [(k, v, T + n, 0) for n, (k, v) in enumerate(sent)])
    one = lake()
    one.run(app, until="caught_up")
    one.run(app, until="caught_up")
    actual = [(m.key(), m.value(), m.timestamp()[1]) for m in records("pub-copy")]
    assert actual == [
        (b"a", b'{"word":"1"}', T), (None, b'{"word":"2"}', T + 1), (b"b", None, T + 2), (b"a", b'{"word":""}', T + 3),
        (None, None, T + 4),
    ]  # fmt: skip
    assert cluster.config("pub-copy")["cleanup.policy"] == "delete"
    assert Layout(one.settings.lake.path).published("pub-copy").endswith("pub-copy.json")
