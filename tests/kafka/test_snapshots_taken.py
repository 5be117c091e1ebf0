"""Looks for snapshots, without Spark: which are taken in, which wait, are left out or refused, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from deltalake import DeltaTable, write_deltalake

import lakehouse as lh
from lakehouse.errors import ConfigError, DataLoss, KafkaUnavailable, NotFound
from lakehouse.kafka import snapshot_topic
from lakehouse.kafka.snapshot_topic import SnapshotRow, SnapshotTopic, create_topic
from lakehouse.kafka.topics import FOR_EVER, Cluster
from lakehouse.kafka.transactional import TransactionFailed
from lakehouse.run.snapshots import taking
from lakehouse.run.snapshots.taking import Snapshotting, keep_looking
from lakehouse.run.start.topics import check_topics
from lakehouse.semantics.record import Record

from ..conftest import settings_for
from ..written_bronze import write_bronze

Told = list[tuple[str, str]]


@pytest.fixture
def told() -> Told:
    """The warnings: kind and message of each."""
    return []


@pytest.fixture
def snapshotting(cluster, broker, tmp_path, told) -> Callable[..., Snapshotting]:
    """snapshotting(topic, path): it looks for snapshots of a table of id and name, as a new process does."""

    def make(topic: str, path: Path | str, **options: Any) -> Snapshotting:
        stream = lh.snapshots(topic, str(path), key="id bigint", schema="name string", **options)
        app = lh.app(stream.latest(topic.replace("-", "_")))
        settings = settings_for(tmp_path / "lake", broker.bootstrap_servers)
        return Snapshotting(settings, app, cluster, lambda *_: None, lambda *warning: told.append(warning))

    return make


def write_versions(path: Path, names: str) -> None:
    for name in names:
        write_deltalake(path, pa.table({"id": [1, 2], "name": [name, "same"]}), mode="overwrite")


def write_csv(folder: Path, name: str, people: dict[int, str]) -> None:
    """Write a file of people in place of the one before, as it should be: whole at once."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "part"
    part.write_text("".join(f"{id},{person}\n" for id, person in {"id": "name", **people}.items()))
    part.rename(folder / name)


def await_warnings(told: Told, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(told) < count:
        assert time.monotonic() < deadline, told
        time.sleep(0.02)


def values(messages: list[Any]) -> list[str]:
    return [message.value().decode() for message in messages]


def test_versions_whose_files_are_gone_are_left_out_and_named(snapshotting, cluster, records, told, tmp_path):
    cluster.create("gone-files", config=FOR_EVER)
    path = tmp_path / "table"
    write_versions(path, "abc")
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    write_versions(path, "de")
    one = snapshotting("gone-files", path, kind="delta")
    one.look()
    assert values(records("gone-files")) == ['{"name":"c"}', '{"name":"same"}', '{"name":"d"}', '{"name":"e"}']
    ((kind, message),) = told
    assert kind == "snapshot left out"
    assert f"{path}: 2 of its versions can't be read any more, and are left out: 0 to 1." in message
    assert "version 0 can't be read any more: VACUUM removed a file of it" in message
    one.look()
    assert len(told) == 1


def test_versions_before_the_beginning_of_the_log_are_left_out(snapshotting, cluster, records, told, tmp_path):
    cluster.create("gone-log", config=FOR_EVER)
    path = tmp_path / "table"
    write_versions(path, "abcd")
    DeltaTable(path).create_checkpoint()
    (path / "_delta_log" / f"{0:020d}.json").unlink()
    snapshotting("gone-log", path, kind="delta").look()
    assert values(records("gone-log")) == ['{"name":"d"}', '{"name":"same"}']
    assert [kind for kind, _ in told] == ["snapshot left out"]
    assert "left out: 1 to 2." in told[0][1]


def test_a_table_that_is_broken_now_is_not_left_out(snapshotting, cluster, records, told, tmp_path):
    cluster.create("gone-now", config=FOR_EVER)
    path = tmp_path / "table"
    write_versions(path, "ab")
    for file in path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(NotFound, match="version 1 can't be read any more"):
        snapshotting("gone-now", path, kind="delta").look()
    assert records("gone-now") == []
    assert ["left out: 0." in message for _, message in told] == [True]


def test_a_row_too_large_is_refused_with_its_place_and_taken_once_the_topic_takes_it(
    snapshotting, cluster, broker, records, told, tmp_path, monkeypatch
):
    monkeypatch.setattr(taking, "LOOK_SECONDS", 0.1)
    cluster.create("too-large", config={**FOR_EVER, "max.message.bytes": "20000"})
    one = snapshotting("too-large", tmp_path / "c-{at}.csv")
    write_csv(tmp_path, "c-2026-01-01.csv", {1: "a"})
    write_csv(tmp_path, "c-2026-01-02.csv", {1: "a", 2: "x" * 30_000})
    with keep_looking(one):
        await_warnings(told, 1)
        ((kind, message),) = told
        assert kind == "snapshot refused"
        assert "c-2026-01-02.csv, row 2: it makes a record of 30," in message
        assert values(records("too-large")) == ['{"name":"a"}']
        command = message.rpartition("--add-config ")[2]
        setting, _, limit = command.partition("=")
        assert setting == "max.message.bytes"
        set_topic_config(broker, "too-large", {**FOR_EVER, setting: limit})
        deadline = time.monotonic() + 30
        while len(records("too-large")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert len(told) == 1


def set_topic_config(broker: Any, topic: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(10)


def test_a_time_that_the_topic_does_not_take_is_refused(snapshotting, cluster, records, tmp_path):
    cluster.create("to-come-not", config=FOR_EVER | {"message.timestamp.after.max.ms": "3600000"})
    write_csv(tmp_path, "c-2999-01-01.csv", {1: "a"})
    with pytest.raises(
        ConfigError, match=r"nothing of the snapshot of 2999-01-01T00:00:00Z was.*message\.timestamp\.after\.max\.ms="
    ):
        snapshotting("to-come-not", tmp_path / "c-{at}.csv").look()
    assert records("to-come-not") == []


def test_a_topic_that_a_run_creates_takes_times_to_come(snapshotting, cluster, records, tmp_path):
    create_topic(cluster, "to-come", 1)
    write_csv(tmp_path, "c-2999-01-01.csv", {1: "a"})
    snapshotting("to-come", tmp_path / "c-{at}.csv").look()
    assert len(records("to-come")) == 1
    create_topic(cluster, "to-come", 1)  # another process may have created it just now
    assert len(records("to-come")) == 1


def test_that_kafka_refuses_again_and_again_is_told_once(snapshotting, cluster, told, tmp_path, monkeypatch):
    monkeypatch.setattr(taking, "LOOK_SECONDS", 0.05)
    create_topic(cluster, "refusing", 1)
    write_csv(tmp_path, "c-2026-01-01.csv", {1: "a"})
    looks = 0

    def refuse(*_: Any, **__: Any) -> None:
        nonlocal looks
        looks += 1
        raise KafkaUnavailable(f"user 'u' may not WRITE, at look {looks}.")

    with monkeypatch.context() as patch:
        patch.setattr(SnapshotTopic, "write", refuse)
        with keep_looking(snapshotting("refusing", tmp_path / "c-{at}.csv")):
            deadline = time.monotonic() + 30
            while looks < 4 and time.monotonic() < deadline:
                time.sleep(0.02)
    assert told == [
        ("snapshot delayed", "user 'u' may not WRITE, at look 2. Every 0.05 s it is tried again."),
    ]


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaUnavailable, "may not WRITE topic 'given-up-.*; grant it with"),
        (KafkaError.REQUEST_TIMED_OUT, KafkaUnavailable, "It is written at the next look"),
        (KafkaError.MSG_SIZE_TOO_LARGE, ConfigError, "such as max.message.bytes"),
        (KafkaError.INVALID_TIMESTAMP, ConfigError, r"--add-config message\.timestamp\.before\.max\.ms="),
    ],
)
def test_the_reason_of_a_transaction_that_was_given_up_is_told(cluster, monkeypatch, code, kind, message):
    create_topic(cluster, f"given-up-{code}", 1)
    topic = SnapshotTopic(cluster, {}, f"given-up-{code}")

    def give_up(*_: Any) -> None:
        raise TransactionFailed(KafkaError(code))

    monkeypatch.setattr(snapshot_topic, "open_transaction", give_up)
    with pytest.raises(kind, match=message):
        topic.write(1, [SnapshotRow(b"k", b"v", "file", 1)], allow_empty=False)


@pytest.mark.parametrize(
    "setting",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete"},
        {"retention.ms": "1000"},
        {"retention.bytes": "1000000"},
        {"message.timestamp.type": "LogAppendTime"},
    ],
    ids=str,
)
def test_a_topic_is_refused_that_does_not_keep_snapshots_as_they_were(cluster, setting):
    ((name, value),) = setting.items()
    topic = f"kept-not-{name}-{len(value)}"
    cluster.create(topic, config=FOR_EVER | setting)
    with pytest.raises(
        ConfigError, match=rf"has {name}={value}, so .* --add-config {name}={FOR_EVER[name]}, or delete"
    ):
        SnapshotTopic(cluster, {}, topic)


def test_settings_that_remove_nothing_are_left_alone(cluster):
    create_topic(cluster, "kept", 1)
    config = cluster.config("kept")
    assert {name: config[name] for name in FOR_EVER} == FOR_EVER
    SnapshotTopic(cluster, {}, "kept")


def write_bronze_of(cluster: Cluster, lake: Path, topic: str, messages: list[Any]) -> None:
    """Write the lake's bronze as a run does that takes in these messages."""
    topic_id = cluster.topics([topic])[topic].id
    taken_in = [
        Record(topic, topic_id, m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), 1, m.timestamp()[1])
        for m in messages
    ]
    write_bronze(lake, taken_in)


@pytest.mark.parametrize("emptied", [False, True], ids=["deleted", "emptied"])
def test_rows_that_went_while_the_topic_was_lost_get_tombstones(
    snapshotting, cluster, records, told, tmp_path, emptied
):
    topic = f"lost-{emptied}"
    create_topic(cluster, topic, 1)
    path = tmp_path / "c-{at}.csv"
    write_csv(tmp_path, "c-2026-01-01.csv", {1: "a", 2: "b", 3: "c"})
    write_csv(tmp_path, "c-2026-01-03.csv", {1: "a", 2: "b", 4: "d"})
    snapshotting(topic, path).look()
    write_bronze_of(cluster, tmp_path / "lake", topic, records(topic))
    if emptied:
        end = cluster.offsets([(topic, 0)])[topic, 0][1]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_records([TopicPartition(topic, 0, end)])[TopicPartition(topic, 0)].result(10)
    else:
        cluster.delete(topic)
        create_topic(cluster, topic, 1)
    (tmp_path / "c-2026-01-03.csv").unlink()
    write_csv(tmp_path, "c-2026-01-02.csv", {1: "a", 5: "e"})  # before the newest that bronze has: says nothing of 4
    snapshotting(topic, path).look()
    assert keys_and_values(records(topic)) == [
        (1, '{"name":"a"}'), (2, '{"name":"b"}'), (3, '{"name":"c"}'),
        (2, None), (3, None), (5, '{"name":"e"}'),
    ]  # fmt: skip
    cluster.delete(topic)
    create_topic(cluster, topic, 1)
    (tmp_path / "c-2026-01-01.csv").unlink()
    write_csv(tmp_path, "c-2026-01-04.csv", {})
    one = snapshotting(topic, path)
    with pytest.raises(ConfigError, match="would delete all 4"):
        one.look()
    write_csv(tmp_path, "c-2026-01-04.csv", {1: "a"})
    one.look()
    written = keys_and_values(records(topic))
    assert (written[:2], sorted(written[2:])) == (
        [(1, '{"name":"a"}'), (5, '{"name":"e"}')],
        [(2, None), (4, None), (5, None)],
    )
    write_csv(tmp_path, "c-2026-01-05.csv", {1: "b"})
    one.look()
    assert keys_and_values(records(topic))[5:] == [(1, '{"name":"b"}')]


def test_a_topic_that_was_recreated_between_two_looks_is_filled_again(snapshotting, cluster, records, tmp_path):
    create_topic(cluster, "recreated", 1)
    write_csv(tmp_path, "c-2026-01-01.csv", {1: "a"})
    one = snapshotting("recreated", tmp_path / "c-{at}.csv")
    one.look()
    cluster.delete("recreated")
    with pytest.raises(NotFound, match="Found no topic 'recreated'"):
        one.look()
    create_topic(cluster, "recreated", 1)
    write_csv(tmp_path, "c-2026-01-02.csv", {1: "a", 2: "b"})
    one.look()
    assert keys_and_values(records("recreated")) == [(1, '{"name":"a"}'), (2, '{"name":"b"}')]


@pytest.mark.slow
def test_a_run_stops_at_a_topic_that_was_deleted_and_goes_on_once_that_is_accepted(lake, cluster, tmp_path):
    stream = lh.snapshots("lost-in-run", str(tmp_path / "c-{at}.csv"), key="id bigint", schema="name string")
    table = stream.latest("lost_in_run")
    app = lh.app(table, table.history())
    write_csv(tmp_path, "c-2026-01-01.csv", {1: "a", 2: "b"})
    one = lake()
    check_topics(one.settings, app, one.settings.kafka.bootstrap_servers)
    one.run(app, until="caught_up")
    cluster.delete("lost-in-run")
    (tmp_path / "c-2026-01-01.csv").unlink()
    write_csv(tmp_path, "c-2026-01-02.csv", {1: "a"})
    check_topics(one.settings, app, one.settings.kafka.bootstrap_servers)
    with pytest.raises(DataLoss, match="the topic was deleted and recreated"):
        one.run(app, until="caught_up")
    accepting = lake(on_data_loss="record")
    accepting.run(app, until="caught_up")
    assert [(row.id, row.name) for row in accepting.read(table).collect()] == [(1, "a")]
    history = accepting.read(app.tables[1]).collect()
    assert sorted((row.id, f"{row.valid_from:%d}", row.valid_to and f"{row.valid_to:%d}") for row in history) == [
        (1, "01", "02"), (1, "02", None), (2, "01", "02"),
    ]  # fmt: skip


def parts_app(snapshotting: Callable[..., Snapshotting], cluster: Cluster, topic: str, folder: Path) -> Snapshotting:
    """Snapshots of several files: the first is in the topic, of the second there is a part."""
    create_topic(cluster, topic, 1)
    for number in (1, 2):
        write_csv(folder / "2026-01-01", f"part-{number}.csv", {number: "a"})
    one = snapshotting(topic, folder / "{at}/part-*.csv")
    one.look()
    write_csv(folder / "2026-01-02", "part-1.csv", {1: "a"})
    return one


FIRST = [(1, '{"name":"a"}'), (2, '{"name":"a"}')]


def test_a_snapshot_of_several_files_is_taken_once_they_stay_the_same(
    snapshotting, cluster, records, told, tmp_path, monkeypatch
):
    monkeypatch.setattr(taking, "SETTLE_SECONDS", 0.01)
    one = parts_app(snapshotting, cluster, "parts", tmp_path)
    (source,) = one.sources
    changes: list[Callable[[], None]] = [
        lambda: None,
        lambda: write_csv(tmp_path / "2026-01-02", "part-2.csv", {2: "b"}),
        lambda: write_csv(tmp_path / "2026-01-02", "part-2.csv", {2: "b", 3: "c"}),
    ]
    for change in changes:
        change()
        write_csv(tmp_path / "2026-01-03", "part-1.csv", {1: "z"})  # it is whole, and its turn comes later
        assert not one.look_at(source)
        assert keys_and_values(records("parts")) == FIRST
    assert one.look_at(source)
    expected = [*FIRST, (2, '{"name":"b"}'), (3, '{"name":"c"}'), (2, None), (3, None), (1, '{"name":"z"}')]
    assert keys_and_values(records("parts")) == expected
    assert told == []


def test_a_run_that_ends_by_itself_leaves_files_that_still_grow_to_the_next_one(
    snapshotting, cluster, records, told, tmp_path, monkeypatch
):
    monkeypatch.setattr(taking, "SETTLE_SECONDS", 0.01)
    one = parts_app(snapshotting, cluster, "growing", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(taking.time, "sleep", lambda _: write_csv(tmp_path / "2026-01-02", "part-2.csv", {2: "b"}))
        one.look()
    assert keys_and_values(records("growing")) == FIRST
    ((kind, message),) = told
    assert (kind, message.endswith("Run again when they are written.")) == ("snapshot delayed", True)
    snapshotting("growing", tmp_path / "{at}/part-*.csv").look()
    assert keys_and_values(records("growing")) == [*FIRST, (2, '{"name":"b"}')]
    assert len(told) == 1


def keys_and_values(messages: list[Any]) -> list[tuple[int, str | None]]:
    return [
        (int.from_bytes(message.key(), signed=True), message.value() and message.value().decode())
        for message in messages
    ]
