"""Push queries over a table: each change of a commit once, a deleted row as its key, until the table begins again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.errors import NotFound
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.parser import parse
from lakehouse.ksql.syntax.statement import Query
from lakehouse.lake.layout import Layout
from lakehouse.run.sql.push import push

from ..cli.versioned import Story

DECLARED = """
CREATE TABLE `visits` (`user` VARCHAR PRIMARY KEY, `n` INT, `place` VARCHAR)
  WITH (kafka_topic='visits', value_format='JSON');
"""


def pushed(root: Path, text: str, wait: Callable[[], None], offset: str = "latest") -> Iterator[tuple[object, ...]]:
    script = Script()
    script.run(f"{DECLARED} SET 'auto.offset.reset' = '{offset}';")
    query = parse(text)
    assert isinstance(query, Query)
    return iter(push(query, script, Layout(str(root)), wait).rows)


def test_what_changes_comes_and_a_deleted_row_is_its_key(tmp_path: Path) -> None:
    story = Story(tmp_path / "lake", feed=True)

    def write() -> None:
        gone = [{"user": "ann"}]
        story.visits.commit(9, {"user": "eve", "n": 2, "place": "Rome"}, gone=gone, times=(900, 900))

    rows = pushed(tmp_path / "lake", "SELECT * FROM `visits` EMIT CHANGES", write)
    assert sorted(islice(rows, 2), key=str) == [("ann", None, None), ("eve", 2, "Rome")]


def test_the_beginning_comes_first_if_asked_for(tmp_path: Path) -> None:
    Story(tmp_path / "lake", feed=True)
    rows = pushed(tmp_path / "lake", "SELECT `user` FROM `visits` EMIT CHANGES LIMIT 3", lambda: None, "earliest")
    assert len(list(rows)) == 3


def test_a_table_that_begins_again_is_told(tmp_path: Path) -> None:
    story = Story(tmp_path / "lake", feed=True)

    def again() -> None:
        shutil.rmtree(story.visits.path)
        DeltaTable.create(story.visits.path, story.visits.schema)

    with pytest.raises(NotFound, match="table 'visits' begins again: it was at version 5, and is at 0"):
        next(pushed(tmp_path / "lake", "SELECT * FROM `visits` EMIT CHANGES", again))
