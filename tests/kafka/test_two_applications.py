"""Two applications on one lake at once: one ingests and keeps its table, the other reads the same bronze."""

from __future__ import annotations

import pytest

import lakehouse as lh

BOTH = ("ingest", "silver")


@pytest.mark.slow
def test_two_applications_share_a_lake(lake, cluster, send, latest, running) -> None:
    cluster.create("two-words", partitions=2)
    one, first = lake(), latest("two-words")
    again = lh.stream("two-words", key="k string", schema="word string", format="kafka", name="again")
    second = lh.app(again.group_by("word").agg(n=lh.count()).table("words"))
    with running(one, first, parts=BOTH, kind="batch") as came_first:
        send("two-words", [("a", "red"), ("b", "red"), ("c", "blue")])
        came_first(3)
        with running(one, second, parts=("silver",), kind="batch") as came_second:
            came_second(3)
            send("two-words", [("a", "blue"), ("d", "red")])
            came_first(5)
            came_second(5)
    rows = {row.k: row.word for row in one.read(first.table("two_words")).collect()}
    assert rows == {"a": "blue", "b": "red", "c": "blue", "d": "red"}
    assert {row.word: row.n for row in one.read(second.table("words")).collect()} == {"red": 3, "blue": 2}
