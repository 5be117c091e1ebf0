"""Bronze back into a topic: what arrives there, and which topics are refused; on a real broker."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, LeaseHeld, NotFound, PlanError
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.run.repair.rehydrate import Rehydrated
from lakehouse.semantics.record import Record

from .rehydrated import T, arrived, check, history

DAY_MS = 24 * 60 * 60 * 1000


def test_everything_arrives_as_it_was(bronze_of, cluster, records) -> None:
    made = history("re-all")
    lake = bronze_of(made)
    seen: list[tuple[int, int]] = []
    outcome = lake.rehydrate("re-all", "re-all-2", listen=lambda *so_far: seen.append(so_far))
    assert (outcome.records, outcome.written, outcome.created, outcome.partitions, outcome.untimed) == (
        120,
        120,
        True,
        3,
        0,
    )
    assert all(of.keeps_offsets for of in outcome.moved)
    assert seen[-1] == (120, 120)
    check(records("re-all-2"), made)
    config = cluster.config("re-all-2")
    assert (config["cleanup.policy"], config["retention.ms"]) == ("delete", "-1")

    again = lake.rehydrate("re-all", "re-all-2")
    assert (again.records, again.written, again.created) == (120, 0, False)
    assert len(records("re-all-2")) == 120
    # For a later moment the rest is added. The records of an earlier one are fewer than the topic's: refused.
    lake.rehydrate("re-all", "re-all-3", tick=1)
    assert lake.rehydrate("re-all", "re-all-3", tick=3, from_tick=1).written == 80
    check(records("re-all-3"), made)
    with pytest.raises(ConfigError, match="not the first of the chosen records"):
        lake.rehydrate("re-all", "re-all-3", tick=2)


def test_a_part_and_positions(bronze_of, records) -> None:
    made = history("re-part")
    lake = bronze_of(made, own=["re-part"])
    outcome = lake.rehydrate("re-part", "re-part-2", from_tick=2, at="2023-11-14T22:13:20.900Z", positions=True)
    chosen = [r for r in made if r.tick >= 2 and r.timestamp <= T + 900]
    assert outcome.records == len(chosen) == 51
    assert not any(of.keeps_offsets for of in outcome.moved)
    assert [(of.part.first_offset, of.offset, of.holes) for of in outcome.moved] == [(14, 0, 0), (13, 0, 0), (13, 0, 0)]
    headers = [dict(m.headers()[-3:]) for m in records("re-part-2") if m.partition() == 1]
    assert headers[0] == {"lakehouse.topic_id": b"id-1", "lakehouse.offset": b"13", "lakehouse.tick": b"2"}
    assert [int(h["lakehouse.offset"]) for h in headers] == list(range(13, 13 + len(headers)))
    with pytest.raises(ConfigError, match="not the first of the chosen"):
        lake.rehydrate("re-part", "re-part-2", from_tick=2, at="2023-11-14T22:13:20.900Z")


def test_holes_and_a_recreated_topic(bronze_of, records) -> None:
    made = [
        Record("re-anew", "id-1", 0, 5, 0, b"a", b"1", 1, 0),
        Record("re-anew", "id-1", 0, 7, -1, b"b", b"2", 1, 0),
        Record("re-anew", "id-2", 0, 0, T, b"c", b"3", 2, T),
    ]
    outcome = bronze_of(made).rehydrate("re-anew", "re-anew-2")
    assert [(of.part.topic_id, of.part.first_offset, of.offset, of.holes) for of in outcome.moved] == [
        ("id-1", 5, 0, 1), ("id-2", 0, 2, 0),
    ]  # fmt: skip
    # Kafka's client reads 0 as "now", and Kafka has no time before it.
    assert outcome.untimed == 2
    assert [(m.key(), m.timestamp()[1]) for m in records("re-anew-2")] == [(b"a", 1), (b"b", 1), (b"c", T)]


def test_records_of_the_future_and_partitions(bronze_of, cluster, records) -> None:
    later = int(time.time() * 1000) + 10 * DAY_MS
    lake = bronze_of([Record("re-later", "id-1", 1, 0, later, None, None, 1, later)])
    cluster.create("re-later", partitions=4)
    assert lake.rehydrate("re-later", "re-later-2").partitions == 2  # Kafka's number of partitions, not bronze's
    assert lake.rehydrate("re-later", "re-later-3", partitions=5).partitions == 5
    assert [m.timestamp()[1] for m in records("re-later-3")] == [later]
    with pytest.raises(ConfigError, match="has records in partition 1; expected 2 or more"):
        lake.rehydrate("re-later", "re-later-4", partitions=1)
    with pytest.raises(ConfigError, match="has 5 partitions; expected 3"):
        lake.rehydrate("re-later", "re-later-3", partitions=3)
    assert lake.rehydrate("re-later", "re-none", tick=0).records == 0
    assert cluster.topics(["re-none"])["re-none"].partitions == 2


def test_topics_that_are_refused(bronze_of, cluster, send) -> None:
    lake = bronze_of(history("re-no"))
    cluster.create("re-few", partitions=2)
    cluster.create("re-compacted", 3, {"cleanup.policy": "compact"})
    cluster.create("re-short", 3, {"retention.ms": str(DAY_MS)})
    cluster.create("re-few-bytes", 3, {"retention.bytes": "1000000"})
    cluster.create("re-append-time", 3, {"message.timestamp.type": "LogAppendTime"})
    cluster.create("re-full", 3)
    send("re-full", [("k", "v", T)])
    for topic, said in (
        ("re-few", "has 2 partitions; expected 3 or more"),
        ("re-compacted", "cleanup.policy=compact: it would not keep .* expected cleanup.policy=delete"),
        ("re-short", r"retention.ms=86400000: .* oldest record is of 2023-11-14T22:13:20Z"),
        ("re-few-bytes", r"retention.bytes=1000000: .* expected retention.bytes=-1"),
        ("re-append-time", "message.timestamp.type=LogAppendTime"),
        ("re-full", "holds 1 records from offset 0 on which are not the first of the chosen"),
    ):
        with pytest.raises(ConfigError, match=said):
            lake.rehydrate("re-no", topic)
    with pytest.raises(NotFound, match="'nothing' is not in bronze"):
        lake.rehydrate("nothing", "re-new")
    with pytest.raises(PlanError, match="Kafka allows at most 249 letters"):
        lake.rehydrate("re-no", "a/../b")
    lease = Lease(Layout(lake.settings.lake.path).lease("rehydrate-re-new"), "the test")
    with lease, pytest.raises(LeaseHeld, match="'re-new' is being written by another process"):
        lake.rehydrate("re-no", "re-new")
    assert "re-new" not in cluster.names()


def test_a_lost_topic_comes_back_under_its_name(bronze_of, cluster, records, send) -> None:
    cluster.create("re-lost", partitions=3)
    made = [replace(r, topic_id=cluster.topics(["re-lost"])["re-lost"].id) for r in history("re-lost")]
    lake = bronze_of(made)
    assert lake.rehydrate("re-lost", "re-lost").written == 120  # it exists and is empty
    with pytest.raises(ConfigError, match="is in Kafka, with records of its own"):
        lake.rehydrate("re-lost", "re-lost")
    with pytest.raises(ConfigError, match="is in Kafka, with records of its own"):
        lake.rehydrate("re-lost", "re-lost", append=True)
    cluster.delete("re-lost")
    assert lake.rehydrate("re-lost", "re-lost").created
    check(records("re-lost"), made)
    assert lake.rehydrate("re-lost", "re-lost").written == 0


@pytest.mark.rotated
def test_ingested_records_go_back(lake, cluster, broker, records, latest, ingest, spark) -> None:
    cluster.create("re-live", partitions=2)
    headers = (("h", b"\xff"), ("h", None))
    sent = [
        ProducerRecord(b"a", b"1", T, headers, 0), ProducerRecord(None, b"", T + 7, (), 1),
        ProducerRecord(b"", None, T + 3, (), 1), ProducerRecord(b"c", b"\xff", T + 1, headers, 0),
    ]  # fmt: skip
    one, app = lake(), latest("re-live", own_table=True)
    produce(broker.bootstrap_servers, {}, "re-live", sent)
    ingest(one, app)
    outcome: Rehydrated = one.rehydrate("re-live", "re-live-2")
    assert (outcome.records, outcome.partitions) == (4, 2)
    assert all(of.keeps_offsets for of in outcome.moved)
    assert sorted(map(str, arrived(records("re-live-2")))) == sorted(map(str, arrived(records("re-live"))))


@pytest.mark.slow
def test_another_lake_makes_the_same_tables_of_it(lake, cluster, send, spark) -> None:
    def words(topic: str) -> lh.Table:
        return lh.stream(topic, key="k string", schema="word string", format="kafka", name="words").latest("words")

    cluster.create("re-tables", partitions=2)
    one, other = lake("one"), lake("other")
    for batch in (["a", "b", None, "c"], ["d", None]):
        send("re-tables", [(f"k{n % 3}", word, T + n) for n, word in enumerate(batch)])
        one.run(lh.app(words("re-tables")), until="caught_up")
    one.rehydrate("re-tables", "re-tables-2")
    other.run(lh.app(words("re-tables-2")), until="caught_up")
    actual = sorted(map(tuple, other.read(words("re-tables-2")).collect()))
    assert actual == sorted(map(tuple, one.read(words("re-tables")).collect())) != []
