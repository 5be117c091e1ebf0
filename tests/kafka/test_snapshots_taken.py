"""Looks for snapshots, without Spark: which are taken in, which wait, are left out or refused, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakehouse as lh
from lakehouse.errors import NotFound
from lakehouse.kafka.snapshot_topic import FOR_EVER
from lakehouse.run.snapshots.taking import Snapshotting

from ..conftest import settings_for

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
