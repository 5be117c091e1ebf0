"""Push queries over a table: each change of a commit once, a deleted row as its key, until the table begins again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.cli.sql.answer import print_answer
from lakehouse.errors import NotFound
from lakehouse.ksql.describe import Answer, DeletedRow
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
    actual = sorted(islice(rows, 2), key=str)
    assert actual == [("ann", None, None), ("eve", 2, "Rome")]
    assert [type(row) for row in actual] == [DeletedRow, tuple], "it does not look like a row of nulls"


def test_where_judges_a_deleted_row_by_the_values_that_it_had(tmp_path: Path) -> None:
    story = Story(tmp_path / "lake", feed=True)
    number = 8

    def write() -> None:
        nonlocal number
        number += 1
        times = (number * 100, number * 100)
        if number % 2:
            story.visits.commit(number, {"user": "eve", "n": number, "place": "Rome"}, times=times)
        else:
            story.visits.commit(
                number, {"user": f"x{number}", "n": 0, "place": ""}, gone=[{"user": "eve"}], times=times
            )

    rows = pushed(tmp_path / "lake", "SELECT `place`, `n` + 1 FROM `visits` WHERE `n` > 8 EMIT CHANGES", write)
    actual = list(islice(rows, 4))
    assert [(type(row), *row) for row in actual] == [
        (tuple, "Rome", 10), (DeletedRow, None, None), (tuple, "Rome", 12), (DeletedRow, None, None),
    ]  # fmt: skip


def test_a_deleted_row_is_marked_on_the_terminal_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("ann", 7), DeletedRow(("ann", None))]
    for as_json in (False, True):
        print_answer(Answer(("ID", "N"), rows, ends=False), as_json=as_json)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("<TOMBSTONE>")
    assert "ann" in lines[1]
    assert "N" not in lines[1].removesuffix("<TOMBSTONE>"), "no null stands for a value"
    assert [json.loads(line) for line in lines[2:]] == [
        {"ID": "ann", "N": 7}, {"ID": "ann", "N": None, "tombstone": True},
    ]  # fmt: skip


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
