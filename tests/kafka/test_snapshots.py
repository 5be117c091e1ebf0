"""Snapshots into a topic: what differs, once, whatever is cut off; and tables that are each snapshot at its time."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import lakehouse as lh
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.kafka import snapshot_topic
from lakehouse.kafka.snapshot_topic import FILE_HEADER, ROW_HEADER, SnapshotRow, SnapshotTopic
from lakehouse.kafka.topics import FOR_EVER
from lakehouse.run.snapshots import taking

from .. import seeds

START = datetime(2026, 1, 1, tzinfo=UTC)
Table = dict[bytes, bytes]


def rows_of(table: Table, file: str = "file") -> Iterator[SnapshotRow]:
    for number, (key, value) in enumerate(table.items(), start=1):
        yield SnapshotRow(key, value, file, number)


def folded(messages: Iterable[Any]) -> Table:
    """The rows that a topic's records give; the oracle, which shares no code with what it judges."""
    table: Table = {}
    for message in messages:
        if message.value() is None:
            table.pop(message.key(), None)
        else:
            table[message.key()] = message.value()
    return table


def drawn_table(random: Random, keys: int) -> Table:
    share = random.choice((0.2, 0.8, 1.0))
    return {b"k%d" % n: b"v%d" % random.randrange(3) for n in range(keys) if random.random() < share} or {b"k": b"v"}


def test_a_topic_is_each_snapshot_after_it(cluster, records):
    random = Random(seeds.draw())
    cluster.create("snap-drawn", partitions=3, config=FOR_EVER)
    topic = SnapshotTopic(cluster, {}, "snap-drawn")
    before: Table = {}
    record_count = 0
    for number in range(1, 12):
        table = dict(before) if random.random() < 0.2 else drawn_table(random, keys=20)
        if random.random() < 0.3:
            topic = SnapshotTopic(cluster, {}, "snap-drawn")  # a new process: the topic tells it all
        expected = (
            len(table.keys() - before.keys()),
            sum(before[key] != value for key, value in table.items() if key in before),
            len(before.keys() - table.keys()),
        )
        assert topic.write(number, rows_of(table), allow_empty=False) == expected
        record_count += sum(expected)
        messages = records("snap-drawn")
        assert folded(messages) == table
        assert len(messages) == record_count
        before = table
        assert not topic.lacks_snapshot(number)
        assert topic.lacks_snapshot(number + 1)


def test_nothing_of_a_snapshot_is_written_that_can_not_be_read_to_its_end(cluster, records):
    cluster.create("snap-cut", config=FOR_EVER)
    topic = SnapshotTopic(cluster, {}, "snap-cut")
    topic.write(1, rows_of({b"a": b"1"}), allow_empty=False)

    def cut() -> Iterator[SnapshotRow]:
        yield from rows_of({b"b": b"2"})
        raise ConfigError("row 2 is bad")

    for rows, message in (
        (cut(), "row 2 is bad"),
        ([*rows_of({b"b": b"2"}), *rows_of({b"b": b"3"}, "other")], "other, row 1: its key 'b' stands in an earlier"),
        ([], "would delete all 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            topic.write(2, rows, allow_empty=False)
    assert topic.lacks_snapshot(2)
    assert folded(records("snap-cut")) == {b"a": b"1"}
    assert topic.write(2, [], allow_empty=True) == (0, 0, 1)
    assert folded(records("snap-cut")) == {}


def test_a_writer_that_another_one_has_replaced_writes_nothing(cluster, records):
    cluster.create("snap-fenced", config=FOR_EVER)
    old = SnapshotTopic(cluster, {}, "snap-fenced")
    new = SnapshotTopic(cluster, {}, "snap-fenced")
    with pytest.raises(LakehouseError, match="another process writes snapshots"):
        old.write(1, rows_of({b"a": b"old"}), allow_empty=False)
    new.write(1, rows_of({b"a": b"new"}), allow_empty=False)
    assert folded(records("snap-fenced")) == {b"a": b"new"}


def test_changed_rows_that_do_not_fit_in_memory_are_spooled(cluster, records, monkeypatch):
    monkeypatch.setattr(snapshot_topic, "SPOOL_BYTES", 100)
    cluster.create("snap-spooled", config=FOR_EVER)
    table = {b"k%d" % n: b"v" * 50 for n in range(100)}
    assert SnapshotTopic(cluster, {}, "snap-spooled").write(1, rows_of(table), allow_empty=False) == (100, 0, 0)
    assert folded(records("snap-spooled")) == table


def test_the_newest_record_of_a_key_counts_after_partitions_were_added(cluster):
    """Keys move to other partitions then, and partitions are read one after the other."""
    cluster.create("snap-grown", config=FOR_EVER)
    table = {b"k%d" % n: b"1" for n in range(20)}
    SnapshotTopic(cluster, {}, "snap-grown").write(1, rows_of(table), allow_empty=False)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions("snap-grown", 4)])["snap-grown"].result(10)
    while cluster.topics(["snap-grown"])["snap-grown"].partitions < 4:
        time.sleep(0.05)
    for number in (2, 3):
        table = dict.fromkeys(list(table)[:-1], b"%d" % number)
        assert SnapshotTopic(cluster, {}, "snap-grown").write(number, rows_of(table), allow_empty=False).deleted == 1
    assert SnapshotTopic(cluster, {}, "snap-grown").write(4, rows_of(table), allow_empty=False) == (0, 0, 0)


People = dict[int, str | None]


def write_csv(folder: Path, at: datetime, people: People) -> None:
    folder.mkdir(exist_ok=True)
    part = folder / "part"
    with part.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "name"), *people.items()])
    part.rename(folder / f"people-{at:%Y-%m-%dT%H-%M-%S}.csv")


def people_app(folder: Path, *topics: str) -> lh.App:
    """A table of people; with a second topic another one, of files beside them."""
    streams = [
        lh.snapshots(topic, str(folder / f"{name}-{{at}}.csv"), key="id bigint", schema="name string", partitions=2)
        for topic, name in zip(topics, ("people", "others"), strict=False)
    ]
    return lh.app(*[stream.latest(name) for stream, name in zip(streams, ("people", "others"), strict=False)])


def drawn_people(random: Random) -> People:
    names = ("Ann", 'B"ob, jr', "Zoë\n2", None)
    return {n: random.choice(names) for n in range(12) if random.random() < 0.7} or {0: "Ann"}


@pytest.mark.rotated
def test_the_table_is_each_snapshot_at_its_time(lake, bronze, tmp_path):
    random, app, one = Random(seeds.draw()), people_app(tmp_path / "in", "snap-people"), lake()
    snapshots = [(START + timedelta(hours=n), drawn_people(random)) for n in range(4)]
    events: list[Any] = []
    for batch in (snapshots[:2], snapshots[2:], []):
        for at, people in batch:
            write_csv(tmp_path / "in", at, people)
        one.run(app, until="caught_up", listen=events.append)
    for at, people in snapshots:
        moment = at + random.choice((timedelta(0), timedelta(minutes=59)))
        assert {row.id: row.name for row in one.read(app.tables[0], at=moment).collect()} == people
    taken = [event for event in events if event.kind == "snapshot"]
    differing = [at for n, (at, people) in enumerate(snapshots) if n == 0 or people != snapshots[n - 1][1]]
    assert [event.details["at"] for event in taken] == [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in differing]
    assert sum(event.records for event in events if event.kind == "tick") == sum(event.records for event in taken)
    rows = [row for row in bronze(one) if row["value"] is not None]
    headers = [{item["key"]: item["value"] for item in row["headers"]} for row in rows]
    assert all(Path(item[FILE_HEADER].decode()).parent == tmp_path / "in" for item in headers)
    assert all(1 <= int(item[ROW_HEADER]) <= 12 for item in headers)


@pytest.mark.rotated
def test_a_running_job_takes_in_files_as_they_come_and_goes_on_after_a_bad_one(
    lake, running, bronze, tmp_path, monkeypatch
):
    monkeypatch.setattr(taking, "LOOK_SECONDS", 0.2)
    app, one = people_app(tmp_path / "in", "snap-running", "snap-others"), lake()
    (tmp_path / "in").mkdir()
    refusals: list[str] = []
    inner_run = one.run

    def run(app: lh.App, listen: Callable[[Any], None], **options: Any) -> None:
        def heard(event: Any) -> None:
            print(event)  # pytest shows what came if the test fails
            if event.kind == "snapshot refused":
                refusals.append(event.details["message"])
            listen(event)

        inner_run(app, listen=heard, **options)

    monkeypatch.setattr(one, "run", run)
    with running(one, app) as wait:
        write_csv(tmp_path / "in", START, {1: "Ann", 2: "Bob"})
        wait(2)
        bad = tmp_path / "in/people-2026-01-02.csv"
        bad.write_text("id,name\n1,Ann\nx,Bob\n")
        write_csv(tmp_path / "in", START + timedelta(days=2), {1: "Ann", 3: "Cid"})
        deadline = time.monotonic() + 60
        while not refusals and time.monotonic() < deadline:
            time.sleep(0.05)
        part = tmp_path / "in/part"
        part.write_text("id,name\n9,Eve\n")
        part.rename(tmp_path / "in/others-2026-01-01.csv")  # they are not held up
        wait(3)
        bad.write_text("id,name\n1,Ann\n2,Rob\n")
        wait(6)
    assert ["people-2026-01-02.csv, row 2: field id" in message for message in refusals] == [True]
    names = [row["value"] and json.loads(row["value"])["name"] for row in bronze(one)]
    assert sorted(map(str, names)) == ["Ann", "Bob", "Cid", "Eve", "None", "Rob"]
