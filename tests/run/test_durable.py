"""Files that must be whole: synced before they get their name; a file that was cut off is recognized."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.durable import read_object, write_durably
from lakehouse.errors import ConfigError, StorageError
from lakehouse.kafka.topics import TopicFacts
from lakehouse.lake.layout import Layout
from lakehouse.run.drill import logbook
from lakehouse.run.job import upkeep
from lakehouse.run.job.upkeep import Upkeeping
from lakehouse.run.repair import refilled_topic


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_after(tmp_path: Path, monkeypatch) -> None:
    did: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        did.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def renamed(self: Path, other: Any) -> Path:
        did.append("rename")
        return replace(self, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_durably(tmp_path / "new" / "a.json", '{"tick": 1}')
    assert did == ["file", "rename", "folder"]
    assert read_object(tmp_path / "new" / "a.json") == {"tick": 1}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json"]


def test_a_private_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    write_durably(tmp_path / "a", "x")
    write_durably(tmp_path / "b", "x", private=True)
    assert (tmp_path / "b").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", '{"tick": ', "null", "[1]", "\0\0\0\0"])
def test_a_file_that_was_cut_off_is_no_object(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert read_object(tmp_path / "a.json") is None


def test_the_history_of_drills_has_the_newest_first_and_takes_no_half_file(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    assert list(logbook.read_history(layout)) == []
    for tick, (at, table) in enumerate(
        [("2026-11-22T10:00:00+00:00", "orders"), ("2026-11-22T09:00:00+00:00", "orders"),
         ("2026-11-22T11:00:00+00:00", "more_orders")]
    ):  # fmt: skip
        logbook.add_to_history(layout, logbook.Drill(at, table, tick, 2, 3, 4.0, ok=True))
    Path(layout.drills, "20261122T120000.orders.json.7.new").write_text('{"table": "ord')  # its writer was killed
    for name in ("orders", "ORDERS"):
        assert [entry["tick"] for entry in logbook.read_history(layout, name)] == [0, 1]
    assert [entry["tick"] for entry in logbook.read_history(layout)] == [2, 0, 1]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"at": "2026-11-22", "table": "orders", "tick": "1"}']
)
def test_a_file_that_is_no_drill_is_named(tmp_path: Path, text: str) -> None:
    layout = Layout(str(tmp_path))
    Path(layout.drills).mkdir(parents=True)
    Path(layout.drills, "20261122T120000.orders.json").write_text(text)
    with pytest.raises(
        StorageError, match=r"orders\.json: found .+; expected a file that `lakehouse test drill` wrote"
    ):
        list(logbook.read_history(layout))


def test_where_a_rehydrate_began_is_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "copy.json"
    facts = TopicFacts("copy", "id", 1)
    assert refilled_topic._read_remembered(str(file), facts) is None
    file.write_text("")
    with pytest.raises(ConfigError, match=r"copy\.json can't be read.*Delete the topic"):
        refilled_topic._read_remembered(str(file), facts)


def test_when_upkeep_was_done_may_be_lost(tmp_path: Path) -> None:
    from lakehouse.settings.config import Upkeep

    layout = Layout(str(tmp_path))
    file = Path(layout.upkeep, "bronze.json")
    for text in ("", '{"tick": 5'):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        keeping = Upkeeping(layout, Upkeep(), "bronze", lambda policy: [], lambda *_: None, lambda _: None)
        keeping.run_if_due(7)
        assert (read_object(file) or {})["tick"] == 7


@pytest.mark.parametrize("text", [None, "", '{"tick": '])
def test_how_far_a_net_changelog_is_may_be_lost(tmp_path: Path, text: str | None) -> None:
    table = lh.stream("words", key="k string", schema="n bigint").latest("words")
    app, layout = lh.app(table.changes(net=True).to_topic("out")), Layout(str(tmp_path))
    if text is not None:
        write_durably(Path(layout.published("out")), text)
    # Then nothing that it may still need is removed.
    assert upkeep._published_ticks(layout, app, table) == {"out": 0}
