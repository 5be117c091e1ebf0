"""A table is backfilled and reverted while its job runs: the job goes on, and only what differs is published.

the job          6 records | wrong UPDATE of a | swap: a is right again | 2 records | revert   | 1 record
the changelog    6         |                   | 1 (a)                  | 2         | a, c     | 1
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from deltalake import DeltaTable

import lakehouse as lh
from lakehouse.lake.layout import Layout
from lakehouse.run.job.job import PARTS
from lakehouse.run.lake import Lake
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.moment import AtVersion

T = 1_700_000_000_000


def replayed(messages: list[Any]) -> dict[str, Any]:
    """The table that a changelog gives."""
    table: dict[str, Any] = {}
    for message in messages:
        key = message.key().decode()
        table.pop(key, None)
        if message.value() is not None:
            table[key] = json.loads(message.value())
    return table


@pytest.mark.slow
def test_a_table_is_backfilled_and_reverted_while_its_job_runs(lake, cluster, send, records, running) -> None:
    cluster.create("live-in", partitions=2)
    words = lh.stream("live-in", key="word string", schema="n bigint")
    sums = words.group_by("word").agg(n=lh.count(), total=lh.sum("n")).table("live_sums")
    app = lh.app(sums.changes().to_topic("live-sums"))
    one = lake()
    other = Lake(settings=one.settings)
    layout = Layout(one.settings.lake.path)

    def say(*pairs: tuple[str, int]) -> None:
        send("live-in", [(word, json.dumps({"n": n}), T + n) for word, n in pairs])

    def rows(**at: int) -> dict[str, Any]:
        return {row.word: {"n": row.n, "total": row.total} for row in other.read(sums, **at).collect()}

    with running(one, app, PARTS, "published") as wait:
        say(("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5), ("a", 6))
        wait(6)
        begun, tick = rows(), other.tick(sums)
        assert begun == {"a": {"n": 4, "total": 15}, "b": {"n": 2, "total": 6}}

        good = AtVersion(DeltaTable(layout.silver("live_sums")).version())
        one.spark.sql(f"UPDATE delta.`{layout.silver('live_sums')}` SET total = 99 WHERE word = 'a'")
        filled = other.backfill(app, sums, reason="a wrong UPDATE")
        assert (filled.differing, filled.tick) == (Difference(0, 0, 1), tick + 1)
        assert rows() == begun
        wait(7)
        say(("a", 7), ("c", 8))
        wait(9)
        assert rows() == {"a": {"n": 5, "total": 22}, "b": {"n": 2, "total": 6}, "c": {"n": 1, "total": 8}}

        # By its number: at the tick the table has the wrong UPDATE.
        assert rows(tick=tick)["a"]["total"] == 99
        reverted = other.revert(app, sums, good)
        assert (reverted.differing, reverted.before) == (Difference(0, 1, 1), reverted.tick - 1)
        assert rows() == begun
        wait(11)
        say(("b", 9))
        wait(12)
        ended = rows()
    assert ended["b"] == {"n": 3, "total": 15}
    assert "c" not in ended

    actual = records("live-sums")
    assert replayed(actual) == ended
    places = [json.loads(dict(message.headers())["lakehouse.position"]) for message in actual]
    decided = [(place[0], message.key()) for place, message in zip(places, actual, strict=True) if place[2] == ""]
    assert sorted(decided) == [(filled.tick, b"a"), (reverted.tick, b"a"), (reverted.tick, b"c")]
    proofs = one.prove(sums, topic="live-sums")
    assert [proof.origin for proof in proofs] == ["version", "bronze", "changelog"]
    assert len({proof.content for proof in proofs}) == 1, proofs
