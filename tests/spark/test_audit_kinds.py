"""The audit of tables of every kind, after decisions made by hand, and of lakes with a history. Slow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

import lakehouse as lh
from lakehouse.errors import NotFound, PlanError
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.app import App
from lakehouse.run.audit.missing import KafkaAccess
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout
    from lakehouse.run.audit.finding import Audit

pytestmark = pytest.mark.slow

NOBODY = KafkaAccess(None, {}, "nobody was asked")
EVENTS = lh.stream("events", key="id string", schema="n bigint, words array<string>, at bigint")
BY_ID = EVENTS.group_by("id")
TUMBLING = lh.tumbling("10 milliseconds", grace="0 seconds")
COUNTS = BY_ID.window(TUMBLING).agg(n=lh.count(), total=lh.sum("n")).table("counts")
LEAVING = BY_ID.window(TUMBLING).agg(n=lh.count()).table("leaving", retention="10 milliseconds")
BUSY = BY_ID.window(TUMBLING).agg(n=lh.count()).having("n > 1").table("busy", emit="final")
HOPS = BY_ID.window(lh.hopping("20 milliseconds", "10 milliseconds", grace="0 seconds")).agg(n=lh.count()).table("hops")
SESSIONS = BY_ID.window(lh.session("5 milliseconds", grace="0 seconds")).agg(n=lh.count()).table("sessions")
SLIDING = BY_ID.window(lh.sliding("10 milliseconds", grace="0 seconds")).agg(n=lh.count()).table("sliding")
OFTEN = BY_ID.agg(n=lh.count()).having("n > 3").table("often")
LISTS = EVENTS.group_by("id", "n % 2 AS odd").agg(ns=lh.collect_list("n"), n=lh.count()).table("lists")
WORDS = EVENTS.explode("words", "word").rekey("word").latest("words")
TWICE = EVENTS.merge(EVENTS.filter("n > 4")).latest("twice")
ORDERED = EVENTS.latest("ordered", order_by="rowtime", retention="20 milliseconds")
APP = lh.app(COUNTS, LEAVING, BUSY, HOPS, SESSIONS, SLIDING, OFTEN, LISTS, WORDS, TWICE, ORDERED)
TIMES = [("a", 1), ("a", 3), ("b", 4), ("a", 25), ("a", 5), ("b", 6), ("a", 7), ("a", 15), ("b", 47)]
FATES = {
    "counts": {"applied": 5, "late": 4},
    "leaving": {"applied": 1, "superseded": 4, "late": 4},
    "busy": {"applied": 5, "late": 4},
    "hops": {"applied": 6, "late": 3},
    "sessions": {"applied": 5, "late": 4},
    "sliding": {"applied": 6, "late": 3},
    "often": {"applied": 9},
    "lists": {"applied": 9},
    "words": {"current": 2, "superseded": 2, "left_out": 5},
    "twice": {"current": 2, "superseded": 7},
    "ordered": {"current": 2, "superseded": 6, "late": 1},
}


def history() -> list[Record]:
    orders = order_times([time for _, time in TIMES])
    words = {0: '["x", "y"]', 3: '["y", "x"]', 4: "[]", 5: '["z"]', 6: '["z", "z"]'}
    return [
        Record(
            "events", "id", 0, n, time, key.encode(),
            f'{{"n": {n}, "words": {words.get(n, "null")}, "at": {time}}}'.encode(), n // 5 + 1, order,
        )
        for n, ((key, time), order) in enumerate(zip(TIMES, orders, strict=True))
    ]  # fmt: skip


def caught_up(spark: SparkSession, layout: Layout, app: App, last: int) -> None:
    from lakehouse.spark.silver.query import Silver

    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
        for tick in range(1, last + 1):
            silver.catch_up(tick)


def found(audit: Audit) -> list[str]:
    return [problem.found.split(": ", 1)[-1] for problem in audit.problems]


def total(audit: Audit, name: str) -> int:
    return sum(getattr(item.missing, name) for item in audit.partitions)


def test_tables_of_every_kind_and_a_correction(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.audit.audit import audit
    from lakehouse.run.repair.correct import correct
    from lakehouse.run.scenario.replay import write_bronze

    layout = Layout(str(tmp_path / "lake"))
    caught_up(spark, layout, APP, write_bronze(open_lake(spark, layout), APP, history()))
    results = {table.name: audit(open_lake(spark, layout).open(table), APP, NOBODY, deep=True) for table in APP.tables}
    assert {name: found(result) for name, result in results.items() if not result.ok} == {}
    assert {name: result.fates for name, result in results.items()} == FATES
    partly = {name: sum(part.partly_late for part in result.partitions) for name, result in results.items()}
    assert {name: count for name, count in partly.items() if count} == {"hops": 1, "sliding": 1}

    correct(open_lake(spark, layout).open(COUNTS), APP, key="a")
    after = audit(open_lake(spark, layout).open(COUNTS), APP, NOBODY, deep=True)
    assert (after.ok, after.tick, after.fates) == (True, 3, {"applied": 5, "taken_in": 3, "late": 1})
    assert audit(open_lake(spark, layout).open(HOPS), APP, NOBODY).fates == FATES["hops"], "decided for another table"

    gone = DeltaTable(layout.late("sessions"))
    gone.delete('"offset" = 5')
    shallow = audit(open_lake(spark, layout).open(SESSIONS), APP, NOBODY)
    assert "--deep judges it again" in shallow.notes[0]
    assert found(shallow) == [
        "its commits counted 4 windows that a record came too late for",
        "column n adds up to 5 over all groups",
    ]
    deep = audit(open_lake(spark, layout).open(SESSIONS), APP, NOBODY, deep=True)
    assert found(deep) == [
        "1 records came too late and are not, or not for each window, in late/sessions; the first: offset 5"
    ]


@pytest.mark.parametrize(
    ("table", "taken_in", "applied"), [(SESSIONS, 3, 5), (SLIDING, 3, 5)], ids=["sessions", "sliding"]
)
def test_corrected_sessions_and_sliding_windows(
    spark: SparkSession, tmp_path: Path, table: lh.Table, taken_in: int, applied: int
) -> None:
    """What rules in Python judged late was taken in after all: a shallow audit knows it from late/, a deep one too."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.audit.audit import audit
    from lakehouse.run.repair.correct import correct
    from lakehouse.run.scenario.replay import write_bronze

    layout, app = Layout(str(tmp_path / "lake")), lh.app(table)
    caught_up(spark, layout, app, write_bronze(open_lake(spark, layout), app, history()))
    correct(open_lake(spark, layout).open(table), app, key="a")
    for deep in (False, True):
        result = audit(open_lake(spark, layout).open(table), app, NOBODY, deep=deep)
        assert (found(result), result.fates) == ([], {"applied": applied, "taken_in": taken_in, "late": 1}), deep


def test_what_cannot_be_audited_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.audit.audit import audit
    from lakehouse.run.scenario.replay import write_bronze

    layout = Layout(str(tmp_path / "lake"))
    app = lh.app(OFTEN)
    assert write_bronze(open_lake(spark, layout), app, history()) == 2
    with pytest.raises(NotFound, match="'often' does not exist"):
        audit(open_lake(spark, layout).open(OFTEN), app, NOBODY)
    with pytest.raises(PlanError, match="'counts' is not in this application"):
        audit(open_lake(spark, layout).open(COUNTS), app, NOBODY)
    caught_up(spark, layout, app, 0)
    empty = audit(open_lake(spark, layout).open(OFTEN), app, NOBODY, deep=True)
    assert (empty.ok, empty.tick, empty.waiting, empty.fates) == (True, 0, 9, {})
    other = BY_ID.agg(n=lh.count()).having("n > 2").table("often")
    with pytest.raises(PlanError, match="needs a refold"):
        audit(open_lake(spark, layout).open(other), lh.app(other), NOBODY)


def test_a_renamed_stream_has_an_earlier_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.audit.audit import audit
    from lakehouse.run.scenario.replay import write_bronze

    def app(name: str) -> App:
        stream = lh.stream("events", name=name, key="id string", schema="n bigint, words array<string>, at bigint")
        return lh.app(stream.latest("newest"))

    records = history()
    records[1], records[8] = replace(records[1], value=b"bad"), replace(records[8], value=b"bad")
    layout = Layout(str(tmp_path / "lake"))
    write_bronze(open_lake(spark, layout), app("first"), records)
    caught_up(spark, layout, app("first"), 1)
    caught_up(spark, layout, app("second"), 2)
    result = audit(open_lake(spark, layout).open(app("second").tables[0]), app("second"), NOBODY, deep=True)
    assert (found(result), result.fates["quarantined"]) == ([], 2)
    DeltaTable(layout.quarantine("second")).delete()
    result = audit(open_lake(spark, layout).open(app("second").tables[0]), app("second"), NOBODY)
    assert found(result) == ["1 records that do not fit are not in the quarantine; the first: offset 8"]


def send(broker: Broker, topic: str, *records: tuple[str, str]) -> None:
    made = [ProducerRecord(key.encode(), value.encode(), 5) for key, value in records]
    produce(broker.bootstrap_servers, {}, topic, made)


def test_a_table_that_was_restored(lake: Any, broker: Broker) -> None:
    for topic in ("audited", "audited-out"):
        Cluster(broker.bootstrap_servers).create(topic)
    stream = lh.stream("audited", key="id string", schema="n bigint")
    table = stream.group_by("id").agg(n=lh.count()).table("seen")
    newest = stream.latest("newest")
    one, app = lake("one"), lh.app(table.changes().to_topic("audited-out"), newest)
    send(broker, "audited", ("a", '{"n": 1}'), ("b", '{"n": 2}'), ("a", "bad"))
    one.run(app, until="caught_up")
    other = lake("other")
    other.restore(table, "audited-out")
    send(broker, "audited", ("a", '{"n": 3}'), ("a", "bad"))
    other.run(lh.app(table), until="caught_up")
    audit = other.audit(lh.app(table), table, deep=True)
    assert (audit.ok, audit.fates) == (True, {"applied": 1, "quarantined": 1, "restored": 3})
    assert "was restored from a topic" in audit.notes[0]


def test_a_recreated_topic_and_a_recorded_gap(lake: Any, broker: Broker) -> None:
    cluster = Cluster(broker.bootstrap_servers)
    table = lh.stream("audit-anew", key="id string", schema="word string", format="kafka").latest("anew")
    app = lh.app(table)
    cluster.create("audit-anew")
    send(broker, "audit-anew", ("a", "1"), ("b", "1"))
    lake().run(app, until="caught_up")
    send(broker, "audit-anew", ("a", "2"), ("b", "2"), ("c", "2"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition("audit-anew", 0, 4)]).values():
        future.result()
    accepting = lake(on_data_loss="record")
    accepting.run(app, until="caught_up")
    audit = accepting.audit(app, table, deep=True)
    assert (audit.ok, audit.fates, total(audit, "noted")) == (True, {"current": 3}, 2)

    cluster.delete("audit-anew")
    cluster.create("audit-anew")
    send(broker, "audit-anew", ("a", "3"))
    accepting.run(app, until="caught_up")
    audit = accepting.audit(app, table, deep=True)
    assert (audit.ok, audit.fates, total(audit, "noted")) == (True, {"current": 3, "superseded": 1}, 2)
    assert [(part.next, part.offsets) for part in audit.partitions] == [(5, 3), (1, 1)]
    DeltaTable(f"{accepting.settings.lake.path}/bronze/gaps").delete()
    audit = accepting.audit(app, table)
    assert (audit.ok, total(audit, "unknown")) == (True, 2)
    assert "Kafka's topic of this name is another one now" in audit.notes[0]
