"""Tables restored from their topics: one from another, continued, put right; and what is refused."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

import lakehouse as lh
from lakehouse.cli.start.verify import verify_tables
from lakehouse.errors import JobFailed, KafkaUnavailable, NotFound, PlanError, StorageError
from lakehouse.kafka import covers
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.headers import DEFLATED, EVENT_TIME, LEFT_OUT, ORIGIN, POSITION
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.lake.reader import read_bronze_coverage
from lakehouse.lake.record.behind import count_lacking
from lakehouse.run.lake import Lake
from lakehouse.run.repair.replay import replay
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.history.fixed_records import FixedBytes
from lakehouse.spark.transaction import is_delta_table

pytestmark = pytest.mark.slow

T = 1_700_000_000_000


def rows(lake: Lake, table: lh.Table, **at: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.read(table, **at).collect())


def counted(topic: str, name: str) -> lh.Table:
    """Folded in SQL: latest and earliest go by position."""
    stream = lh.stream(topic, key="k string", schema="word string", format="kafka")
    return stream.group_by("k").agg(n=lh.count(), last=lh.latest("word"), first=lh.earliest("word")).table(name)


def sessions(topic: str, name: str) -> lh.Table:
    """Folded key by key; a record that joins two restored sessions compares their values."""
    stream = lh.stream(topic, key="k string", schema="word string", format="kafka")
    named = stream.group_by("k").window(lh.session("10 seconds", grace="1 hour"))
    return named.agg(n=lh.count(), last=lh.latest("word"), first=lh.earliest("word")).table(name)


@pytest.fixture
def forge(broker: Broker) -> Callable[..., None]:
    """forge(topic, key, value, headers): what another program could write."""

    def write(topic: str, key: bytes, value: bytes | None, headers: dict[str, bytes]) -> None:
        produce(broker.bootstrap_servers, {}, topic, [ProducerRecord(key, value, T, tuple(headers.items()))])

    return write


def test_lakes_restored_one_from_the_other_hold_each_record_once(lake, cluster, send, records) -> None:
    """A restored lake begins at tick 1: the older lake's records have larger ticks, and are still older."""
    cluster.create("chain")
    tables = (counted("chain", "counted"), sessions("chain", "sessions"))
    app = lh.app(*(table.changes().to_topic(f"chain-{table.name}") for table in tables))
    one = lake("a")
    for n, word in enumerate(("a1", "a2")):
        send("chain", [("k", word, T + 60_000 - 15_000 * n)])  # each has a tick and a session of its own
        one.run(app, until="caught_up")
    wanted = 2
    for name in ("b", "c"):
        one = lake(name)
        for table in tables:
            one.restore(table, f"chain-{table.name}")
        # The first of them joins the two sessions: their first and last words are compared.
        send("chain", [("k", f"{name}{n}", T + 52_500) for n in range(2)])
        one.run(app, until="caught_up")
        wanted += 2
        assert rows(one, tables[0]) == [("k", wanted, f"{name}1", "a1")]
        assert [row[-3:] for row in rows(one, tables[1])] == [(wanted, f"{name}1", "a1")]
    cover = covers.read_newest_cover(cluster, {}, "chain-counted")
    assert cover is not None
    assert [tick for _, tick in cover.before] == [2, 1]
    with pytest.raises(StorageError, match="was taken over by a lake that was restored from it"):
        lake("b").run(app, until="caught_up")
    # To another topic it publishes all that it has, also the restored rows.
    apart = lh.app(tables[0].changes().to_topic("chain-apart"))
    one.run(apart, until="caught_up")
    assert [json.loads(m.value())["n"] for m in records("chain-apart")] == [4, 5, 6]


def test_a_forged_record_is_refused_with_its_place(lake, cluster, send, forge, records) -> None:
    cluster.create("forged")
    table = counted("forged", "forged")
    app = lh.app(table.changes().to_topic("forged-out"))
    send("forged", [(f"k{n}", "x", T) for n in range(50)])
    lake("a").run(app, until="caught_up")
    (true,) = records("forged-out-covers")
    cover = json.loads(true.value())
    (topic_id,) = cover["next"]
    for forged, match in (
        ({"next": {topic_id: {"0": 100}}}, r"forged/0 is covered up to offset 100, which the topic does not have"),
        ({"next": {topic_id: {"7": 0}}}, r"forged/7 is covered"),
        ({"topic": "another"}, "does not say what it covers"),
        ({"of": "another"}, "has the changelog of 'another', not of 'forged'"),
        ({"tick": "many"}, "record forged-out-covers/0@"),
        ({"sent": 3}, "published in part"),
    ):
        forge("forged-out-covers", b"forged-out", json.dumps({**cover, **forged}).encode(), {})
        with pytest.raises((NotFound, StorageError), match=match):
            lake("b").restore(table, "forged-out")
    forge("forged-out-covers", b"forged-out", true.value(), {})
    assert lake("b").restore(table, "forged-out") == 50
    ours = {POSITION: b'[1, 0, "forged", 0, 0, []]', EVENT_TIME: b"0", ORIGIN: f"{cover['origin']}/forged".encode()}
    for wrong, match in (
        ({POSITION: b'[2, 0, "forged", 0, 0, []]'}, "is of tick 2, and the topic is covered up to 1"),
        ({ORIGIN: b"another-lake/forged"}, "is of another-lake/forged, expected 'forged' of"),
    ):
        forge("forged-out", b"k7", None, {**ours, **wrong})
        with pytest.raises(NotFound, match=rf"record forged-out/0@51 {match}"):
            lake("c").restore(table, "forged-out")
        cluster.delete("forged-out")  # as the message says: all of it is published again
        lake("a").run(app, until="caught_up")
        assert len(records("forged-out")) == 50


def test_another_lake_publishes_nothing_in_silence(lake, cluster, send, records) -> None:
    """Like a bronze that was created again, it has other ticks."""
    cluster.create("anew")
    table = counted("anew", "anew")
    app = lh.app(table.changes().to_topic("anew-out"), table.stream.to_topic("anew-copy"))
    send("anew", [("k", "1", T), ("k", "2", T)])
    one, other = lake("a"), lake("b")
    one.run(app, until="caught_up")
    # The lake's own record may be lost, and a consumer group's offset expires: on object stores both at once.
    shutil.rmtree(Path(one.settings.lake.path, "control"))
    one.run(app, until="caught_up")
    assert [len(records(f"anew-{name}")) for name in ("out", "copy")] == [2, 2]
    with pytest.raises(StorageError, match="this one's bronze was recreated"):
        other.run(app, until="caught_up")
    cluster.delete("anew-out")
    send("anew", [("k", "3", T)])
    other.run(app, until="caught_up")
    assert [json.loads(m.value())["n"] for m in records("anew-out")] == [1, 2, 3]
    assert [json.loads(m.value())["word"] for m in records("anew-copy")] == ["1", "2", "3"]  # a stream goes by offsets


def words(count: int, letters: int) -> Iterable[str]:
    made = random.Random(5)
    for _ in range(count):
        yield "".join(made.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=letters))


def test_accumulators_that_do_not_fit_do_not_stop_publishing(lake, cluster, send, records, broker) -> None:
    cluster.create("large")
    cluster.create("large-out", 1, {"cleanup.policy": "compact", "max.message.bytes": "20000"})
    stream = lh.stream("large", key="k string", schema="word string", format="kafka")
    distinct = stream.group_by("k").agg(n=lh.count_distinct("word")).table("distinct")
    app = lh.app(distinct.changes(net=True).to_topic("large-out"))
    one = lake("a")
    actual = list(words(400, 100))
    for part, header in ((actual[:220], DEFLATED), (actual[220:], LEFT_OUT)):
        send("large", [("k", word, T) for word in part])
        one.run(app, until="caught_up")
        assert header in dict(records("large-out")[-1].headers())
        if header == DEFLATED:
            lake("b").restore(distinct, "large-out")
    assert json.loads(records("large-out")[-1].value()) == {"n": 400}
    with pytest.raises(StorageError, match=r"has no accumulators: they have 41,\d\d\d bytes.*max.message.bytes"):
        lake("c").restore(distinct, "large-out")
    # A value that is too large itself stops publishing with a message; it goes on once the topic allows the size.
    cluster.create("large-values", 1, {"cleanup.policy": "compact", "max.message.bytes": "20000"})
    newest = lh.app(stream.latest("newest").changes().to_topic("large-values"))
    send("large", [("big", "x" * 30_000, T)])
    with pytest.raises(
        (KafkaUnavailable, JobFailed), match=r"large-values.*b'big'.*max.message.bytes to 3\d,\d\d\d or more"
    ):
        one.run(newest, until="caught_up")
    resource = ConfigResource(ResourceType.TOPIC, "large-values")
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", "40000", incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    one.run(newest, until="caught_up")
    assert len(records("large-values")) == 401
    assert lake("d").restore(newest.table("newest"), "large-values") == 2


def test_a_restored_table_is_current_although_it_takes_in_no_record_that_it_covers(lake, cluster, send) -> None:
    cluster.create("covered")
    stream = lh.stream("covered", key="k string", schema="amount bigint", name="covered")
    sums = stream.group_by("k").agg(n=lh.count()).table("sums")
    app = lh.app(sums.changes().to_topic("covered-sums"))
    send("covered", [("a", '{"amount": 1}', T)] * 4)
    lake("a").run(app, until="caught_up")
    restored = lake("b")
    restored.restore(sums, "covered-sums")
    layout = Layout(restored.settings.lake.path)
    restored.run(app, until="caught_up")
    for new_count in (0, 1):
        if new_count:
            send("covered", [("a", '{"amount": 1}', T)])
            restored.run(app, until="caught_up")
        report = verify_tables(layout, app)
        assert (report["problems"], report["tables"]["sums"]["records"]) == ([], new_count)
        assert report["tables"]["sums"]["tick"] == report["tick"]
        assert count_lacking(layout, read_bronze_coverage(layout), "sums", ["covered"], 0) == new_count
    assert rows(restored, sums) == [("a", 5)]


def test_repairs_of_a_restored_table_keep_what_it_was_restored_with(lake, cluster, send) -> None:
    cluster.create("mended")
    stream = lh.stream("mended", key="k string", schema="amount bigint", name="mended")
    sums = stream.group_by("k").agg(n=lh.count(), total=lh.sum("amount"), first=lh.earliest("amount")).table("sums")
    hourly = stream.group_by("k").window(lh.tumbling("1 hour", grace="0 seconds"))
    hours = hourly.agg(n=lh.count()).table("hours")
    app = lh.app(*(table.changes().to_topic(f"mended-{table.name}") for table in (sums, hours)))
    later = T + 7_200_000
    one = '{"amount": 1}'
    send("mended", [*[("a", one, T)] * 3, ("a", '{"amount": "bad"}', T), ("b", one, T), ("a", one, later)])
    lake("a").run(app, until="caught_up")
    two = lake("b")
    for table in (sums, hours):
        two.restore(table, f"mended-{table.name}")
    send("mended", [("a", one, later), ("a", '{"amount": "bad too"}', later), ("a", '{"amount": 5}', T)])
    two.run(app, until="caught_up")
    assert rows(two, sums) == [("a", 6, 10, 1), ("b", 1, 1, 1)]
    assert [row[-1] for row in rows(two, hours)] == [3, 2, 1]

    layout, topic_id = Layout(two.settings.lake.path), cluster.topics(["mended"])["mended"].id

    def fix(offset: int) -> None:
        replay(
            open_lake(two.spark, layout),
            app,
            stream.sources[0],
            [FixedBytes(topic_id, 0, offset, b"a", b'{"amount": 100}')],
        )

    with pytest.raises(PlanError, match="was restored from a topic that covers record mended/0/3"):
        fix(3)
    assert not is_delta_table(two.spark, layout.interventions)
    fix(7)
    assert rows(two, sums) == [("a", 7, 110, 1), ("b", 1, 1, 1)]
    assert [row[-1] for row in rows(two, hours)] == [3, 3, 1]
    assert two.correct(app, hours).records == 1
    assert [row[-1] for row in rows(two, hours)] == [4, 3, 1]

    # The repairs are published, and each way to the past gives the same, or says why it can't.
    two.run(app, until="caught_up")
    three = lake("c")
    for table in (sums, hours):
        three.restore(table, f"mended-{table.name}")
        assert rows(three, table) == rows(two, table)
        proofs = {proof.origin: proof for proof in two.prove(table, topic=f"mended-{table.name}")}
        assert proofs["version"].content == proofs["changelog"].content
        assert "this lake's bronze does not have" in (proofs["bronze"].refused or "")
    for moment in ({"offsets": {"mended": {0: 4}}}, {"at": "2023-11-14T22:13:19Z"}):
        with pytest.raises(NotFound, match="it was restored from a topic"):
            two.read(sums, **moment).collect()
    assert rows(two, sums, offsets={"mended": {0: 7}}) == [("a", 5, 5, 1), ("b", 1, 1, 1)]
    assert rows(two, sums, tick=0) == [("a", 4, 4, 1), ("b", 1, 1, 1)]
    two.revert(app, sums, AtTick(1))
    assert rows(two, sums) == [("a", 6, 10, 1), ("b", 1, 1, 1)]
    assert two.audit(app, sums).ok
    shutil.copytree(layout.interventions, Layout(lake("d").settings.lake.path).interventions)
    with pytest.raises(StorageError, match="interventions in a table of that name"):
        lake("d").restore(sums, "mended-sums")
