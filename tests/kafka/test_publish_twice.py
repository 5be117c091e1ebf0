"""A topic of covers that is lost, and a copy of a lake that goes on: nothing is published twice, nor by two lakes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.semantics.moment import AtTick

pytestmark = pytest.mark.slow
T = 1_700_000_000_000


def test_a_stream_whose_covers_are_lost_is_not_published_again(lake, cluster, send, records) -> None:
    cluster.create("tw-in")
    stream = lh.stream("tw-in", key="k string", schema="word string", format="kafka")
    app, one = lh.app(stream.to_topic("tw-out")), lake()
    send("tw-in", [("k", str(n), T + n) for n in range(5)])
    one.run(app, until="caught_up")
    cluster.delete("tw-out-covers")
    with pytest.raises(StorageError, match="'tw-out' has records, or had some, and no cover says which"):
        one.run(app, until="caught_up")
    assert len(records("tw-out")) == 5
    cluster.delete("tw-out")  # as the message says
    cluster.delete("tw-in")  # what bronze has is published all the same, to as many partitions
    one.run(app, until="caught_up", parts=("silver",))
    assert [message.value() for message in records("tw-out")] == [b'{"word":"%d"}' % n for n in range(5)]


def test_an_older_copy_of_a_lake_does_not_go_on_in_its_topic(lake, cluster, send, records) -> None:
    """The tick of a correction was lost with the lake; another tick with its number took its place in the copy."""
    for topic in ("tc-in", "tc-other"):
        cluster.create(topic)
    counts, others = (
        lh.stream(topic, key="k string", schema="word string", format="kafka")
        .group_by("k")
        .agg(n=lh.count())
        .table(name)
        for topic, name in (("tc-in", "counts"), ("tc-other", "others"))
    )
    app, one = lh.app(counts.changes().to_topic("tc-out"), others), lake()
    root, copy = Path(one.settings.lake.path), Path(one.settings.lake.path).parent / "copy"
    for n in (1, 2):
        send("tc-in", [("k", str(n), T + n)])
        one.run(app, until="caught_up")
    shutil.copytree(root, copy)
    assert one.revert(app, counts, AtTick(1)).tick == 3
    one.run(app, until="caught_up")
    published_count = len(records("tc-out"))
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    send("tc-other", [("z", "1", T)])
    with pytest.raises(StorageError, match="published up to tick 3, and this lake ends at tick 2: it is an older copy"):
        one.run(app, until="caught_up")
    one.run(app, until="caught_up", parts=("ingest",))
    with pytest.raises(StorageError, match="by a lake whose tick 3 was another commit"):
        one.run(app, until="caught_up")
    assert len(records("tc-out")) == published_count
