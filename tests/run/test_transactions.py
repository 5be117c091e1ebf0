"""A changelog in transactions: wherever it is interrupted, the written and the following ones make the changelog."""

from __future__ import annotations

import json
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import KafkaUnavailable, StorageError
from lakehouse.kafka.headers import POSITION
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.lake.layout import Layout
from lakehouse.run.job import transactions
from lakehouse.run.job.transactions import Transaction, cut_changes, position_header

AFTER = 3


def changes(sizes: list[int]) -> list[tuple[int, ProducerRecord]]:
    """A number of records in each tick after AFTER."""
    ticks = [AFTER + 1 + n for n, size in enumerate(sizes) for _ in range(size)]
    return [
        (tick, ProducerRecord(b"k", b"v", 0, ((POSITION, json.dumps([tick, 0, "t", 0, n, []]).encode()),)))
        for n, tick in enumerate(ticks)
    ]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "RECORDS", 4)
    monkeypatch.setattr(transactions, "TOO_LARGE", 3)


def test_a_history_is_several_transactions_of_whole_ticks() -> None:
    """A new sink's history had to be written within 900 seconds."""
    actual = list(cut_changes(changes([3, 2, 0, 1, 9, 1]), AFTER, AFTER + 6))
    assert [(len(part.records), part.tick - AFTER, part.sent_count) for part in actual] == [
        (5, 2, 0),
        (10, 5, 0),
        (1, 6, 0),
    ]


def test_a_tick_that_is_too_large_is_cut_and_ends_alone() -> None:
    actual = list(cut_changes(changes([1, 30, 1]), AFTER, AFTER + 3))
    assert [(len(part.records), part.tick - AFTER, part.sent_count) for part in actual] == [
        (12, 0, 12), (12, 0, 24), (7, 2, 0), (1, 3, 0),
    ]  # fmt: skip


def test_large_records_end_a_transaction_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "BYTES", 60)
    assert [len(part.records) for part in cut_changes(changes([1, 2, 1]), AFTER, AFTER + 3)] == [3, 1]


@pytest.mark.usefixtures("small")
@given(st.lists(st.integers(0, 40), max_size=8), st.data())
def test_what_was_written_and_what_follows_is_the_changelog_exactly_once(sizes: list[int], data: st.DataObject) -> None:
    every, to = changes(sizes), AFTER + len(sizes)
    written: list[ProducerRecord] = []
    done = Transaction([], AFTER)
    while True:
        left = [change for change in every if change[0] > done.tick]
        actual = list(cut_changes(iter(left), done.tick, to, done.sent_count, done.sent_position))
        end = data.draw(st.integers(1, len(actual)))  # the power fails after `end` of them
        for part in actual[:end]:
            written += part.records
            whole = [record for tick, record in every if tick <= part.tick]
            assert len(written) == len(whole) + part.sent_count
            done = part
        if end == len(actual):
            break
    assert written == [record for _, record in every]
    assert (done.tick, done.sent_count) == (to, 0)


@pytest.mark.parametrize("kept", [slice(0, 11), slice(1, None)])
def test_changes_that_differ_from_the_published_part_are_refused(kept: slice) -> None:
    every = changes([30])
    first = next(cut_changes(every, AFTER, AFTER + 1))
    assert (first.sent_count, first.sent_position) == (12, position_header(every[11][1]))
    with pytest.raises(StorageError, match="published in part, by a declaration other"):
        list(cut_changes(every[kept], AFTER, AFTER + 1, first.sent_count, first.sent_position))


def test_the_restored_rows_are_complete_only_with_the_first_tick() -> None:
    """They have no tick of their own: a publisher that went on after them would begin with them again."""
    began = [(AFTER - 2, record) for _, record in changes([6])]
    actual = list(cut_changes([*began, *changes([1, 1])], AFTER, AFTER + 2))
    assert [(len(part.records), part.tick - AFTER, part.sent_count) for part in actual] == [(7, 1, 0), (1, 2, 0)]


def test_a_transaction_that_fails_leaves_no_changes_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python closed them later, perhaps after Spark's end: "Exception ignored in generator"."""
    from lakehouse.run.job import publishing

    open_ones: list[str] = []

    def records(*_: object, **__: object) -> Generator[tuple[int, ProducerRecord]]:
        open_ones.append("changes")
        try:
            yield from changes([5, 5])
        finally:
            open_ones.remove("changes")

    class FailingPublisher:
        topic_id = "T"

        def __init__(self, *_: object, **__: object) -> None: ...

        def remember(self, tick: int, sent_count: int) -> None: ...

        def partitions(self, topic: str) -> int | None:
            return 1

        def publish(self, *_: object) -> int:
            raise KafkaUnavailable("gone")

    topic_facts = {name: SimpleNamespace(id="T", partitions=1) for name in ("in", "out", "out-covers")}
    cluster: Any = SimpleNamespace(
        names=lambda: list(topic_facts),
        topics=lambda _: topic_facts,
        config=lambda _: {"cleanup.policy": "compact"},
        offsets=lambda places, **_: dict.fromkeys(places, (0, 0)),
    )
    lake: Any = SimpleNamespace(layout=Layout("lake"), spark=None)
    lake.own_session = lambda: lake
    settings: Any = SimpleNamespace(kafka=SimpleNamespace(options={}))
    monkeypatch.setattr(publishing.bronze, "create_tables", lambda *_: None)
    monkeypatch.setattr(publishing.covers, "read_newest_cover", lambda *_: None)
    monkeypatch.setattr(publishing, "latest_complete_tick", lambda _: AFTER + 2)
    monkeypatch.setattr(publishing, "Publisher", FailingPublisher)
    monkeypatch.setattr(publishing.published, "origin_of", lambda *_: "lake")
    monkeypatch.setattr(publishing.published, "next_offsets", lambda *_: {})
    monkeypatch.setattr(publishing.published, "needed_offsets", lambda *_: None)
    monkeypatch.setattr(publishing.published, "tick_nonce", lambda *_: "nonce")
    monkeypatch.setattr(publishing.published, "producer_records", records)
    app = lh.app(lh.stream("in", key="k string", schema="v string").to_topic("out"))
    with publishing.Publishing(lake, settings, app, cluster) as open_publishing:
        with pytest.raises(KafkaUnavailable) as failed:
            list(open_publishing.publish(AFTER + 2, lambda sink, tick: tick))
        assert not open_ones, failed.value.__traceback__  # the traceback keeps the functions' values alive
