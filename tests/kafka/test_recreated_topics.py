"""Topics that were deleted and created again, and logs that were cut: records are read by topic id, each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import DataLoss
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze.gaps import read_accepted_gaps
from lakehouse.spark.changelog.upstream import open_lake

from ..written_bronze import write_bronze

T = 1_700_000_000_000


def counted(*topics: str, own_table: bool = False) -> lh.App:
    """The number of records of each key, a table a topic."""
    return lh.app(
        *[
            lh.stream(topic, key="k string", schema="word string", format="kafka", own_table=own_table)
            .group_by("k")
            .agg(n=lh.count())
            .table(topic.replace("-", "_"))
            for topic in topics
        ]
    )


def counts(lake: Lake, app: lh.App, table: str) -> dict[str, int]:
    return {row.k: row.n for row in lake.read(app.table(table)).collect()}


# Slow: the core has a topic that was recreated after its records (test_data_loss.py).
@pytest.mark.slow
def test_a_topic_recreated_before_its_first_record_does_not_keep_the_dead_id(
    lake, cluster, send, bronze, spark: SparkSession, ingest
) -> None:
    for topic in ("anew-kept", "anew-empty", "anew-own"):
        cluster.create(topic, partitions=2)
    dead = {topic: cluster.topics([topic])[topic].id for topic in ("anew-empty", "anew-own")}
    send("anew-kept", [("k", "v", T)])
    one = lake()
    app = lh.app(*counted("anew-kept", "anew-empty").tables, *counted("anew-own", own_table=True).tables)
    assert ingest(one, app) == [(1, 1)]
    for topic in dead:
        for partitions in (1, 3):  # twice, with fewer partitions and with more
            cluster.delete(topic)
            cluster.create(topic, partitions=partitions)
        send(topic, [("k", str(n), T, n) for n in range(3)])
    living = {topic: cluster.topics([topic])[topic].id for topic in dead}
    assert ingest(one, app) == [(2, 6)]
    assert ingest(lake(on_data_loss="record"), app) == []
    rows = [row for row in [*bronze(one), *bronze(one, "anew-own")] if row["topic"] != "anew-kept"]
    assert [(row["topic_id"], row["partition"]) for row in rows] == [
        (living[topic], n) for topic in dead for n in range(3)
    ]
    # Nobody knows what the dead topics held: that is recorded, and stops nothing.
    noted = read_accepted_gaps(open_lake(spark, Layout(one.settings.lake.path)))
    lost = {gap.topic: (gap.topic_id, gap.from_offset, gap.to_offset) for gap in noted}
    assert lost == {topic: (dead[topic], 0, None) for topic in dead}


@pytest.mark.slow
def test_a_topic_recreated_before_its_first_record_while_the_job_runs(lake, cluster, send, bronze, running) -> None:
    for topic in ("anew-live-kept", "anew-live"):
        cluster.create(topic)
    send("anew-live-kept", [("k", "v", T)])
    one, app = lake(), counted("anew-live-kept", "anew-live")
    with running(one, app, parts=("ingest", "silver"), kind="batch") as wait:
        wait(1)
        cluster.delete("anew-live")
        cluster.create("anew-live")
        send("anew-live", [("k", str(n), T) for n in range(3)])
        wait(4)
    one.run(app, until="caught_up")
    assert counts(one, app, "anew_live") == {"k": 3}
    living = cluster.topics(["anew-live"])["anew-live"].id
    assert {row["topic_id"] for row in bronze(one) if row["topic"] == "anew-live"} == {living}


@pytest.mark.rotated
def test_a_log_that_was_cut_is_refused_because_its_offsets_return_with_other_records(
    lake, cluster, send, bronze, latest, tmp_path: Path
) -> None:
    cluster.create("anew-cut")
    send("anew-cut", [("k", str(n), T) for n in range(3)])
    topic_id = cluster.topics(["anew-cut"])["anew-cut"].id
    write_bronze(
        tmp_path / "lake", [Record("anew-cut", topic_id, 0, n, T, b"k", str(n).encode(), 1, T) for n in range(5)]
    )
    one, app = lake(on_data_loss="record"), latest("anew-cut")
    with pytest.raises(DataLoss, match=r"offsets \[3, 5\): Kafka ends at offset 3.* log was cut") as actual:
        one.run(app, until="caught_up", parts=("ingest",))
    assert "can't be accepted" in str(actual.value)
    assert 'on_data_loss = "record"' in str(actual.value)
    assert len(bronze(one)) == 5
    assert read_accepted_gaps(open_lake(one.spark, Layout(one.settings.lake.path))) == []
    # The way out that the error names.
    cluster.delete("anew-cut")
    cluster.create("anew-cut")
    send("anew-cut", [("k", "new", T)])
    one.run(app, until="caught_up", parts=("ingest",))
    assert [(row["topic_id"] == topic_id, row["offset"]) for row in bronze(one)] == [(True, n) for n in range(5)] + [
        (False, 0)
    ]


@pytest.mark.slow
def test_windows_over_a_tables_changes_and_joins_start_stream_time_over(lake, cluster, send) -> None:
    """Live, and in a rebuild. The packed test of the rules, against the model: tests/spark/test_recreated_topics.py."""
    names = ("anew-left", "anew-right")
    left, right = (lh.stream(name, key="k string", schema="n bigint") for name in names)
    changes = left.latest("anew_now").to_stream().group_by("k").window(lh.session("5 seconds", grace="1 second"))
    sessions = changes.agg(c=lh.count()).table("anew_sessions")
    joined = left.join(right, within="5 seconds", grace="1 second", prefix="r_")
    pairs = joined.group_by("k").agg(c=lh.count()).table("anew_pairs")
    one, app = lake(on_data_loss="record"), lh.app(sessions, pairs)

    def counted() -> dict[str, list[tuple[str, int]]]:
        return {of.name: sorted((row.k, row.c) for row in one.read(of).collect()) for of in (sessions, pairs)}

    for name in names:
        cluster.create(name)
        send(name, [("a", '{"n": 1}', 500_000), ("a", '{"n": 2}', 505_000)])
    one.run(app, until="caught_up")
    assert counted() == {"anew_sessions": [("a", 2)], "anew_pairs": [("a", 4)]}
    for name in names:
        cluster.delete(name)
        cluster.create(name)
        send(name, [("a", '{"n": 3}', 1_000), ("b", '{"n": 4}', 2_000), ("b", '{"n": 5}', 12_000)])
    one.run(app, until="caught_up")
    live = counted()
    assert live == {"anew_sessions": [("a", 1), ("a", 2), ("b", 1), ("b", 1)], "anew_pairs": [("a", 5), ("b", 2)]}
    for table in (sessions, pairs):
        one.backfill(app, table, reason="nothing should differ")
    assert counted() == live
