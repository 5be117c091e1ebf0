"""Fixed records in the topic of a published stream: each once, when it is fixed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import JobFailed, PlanError
from lakehouse.kafka.publish import Publisher
from lakehouse.lake.control.partial_progress import refuse_partial
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import QuarantineChoice, count_quarantined_records
from lakehouse.run.job import transactions
from lakehouse.run.repair.fixes import fixed_records

T = 1_700_000_000_000


@pytest.mark.slow
def test_a_fixed_record_reaches_a_streams_topic_once(lake, cluster, send, records) -> None:
    cluster.create("fix-raw", partitions=1)
    stream = lh.stream("fix-raw", key="k string", schema="n bigint", name="raw")
    sums = stream.group_by("k").agg(n=lh.count()).table("fix_sums")
    app = lh.app(sums, stream.filter("n > 0").to_topic("fix-copy"))
    values = ['{"n": 1}', '{"n": "two"}', '{"n": 3}', '{"n": "minus"}']
    send("fix-raw", [("a", value, T + n, 0) for n, value in enumerate(values)])
    one = lake()
    layout = Layout(one.settings.lake.path)

    def published() -> list[int]:
        one.run(app, until="caught_up")
        return [json.loads(message.value())["n"] for message in records("fix-copy")]

    assert published() == [1, 3]
    fixes = {1: b'{"n": 2}', 3: b'{"n": -4}'}
    made = fixed_records(layout, app, "raw", QuarantineChoice(), lambda record: fixes[record.offset])
    one.replay(app, "raw", made.fixed, reason="the sender wrote words")
    assert count_quarantined_records(layout, "raw") == (2, 0)
    assert published() == [1, 3, 2], "the other one does not pass the filter"
    assert published() == [1, 3, 2]
    send("fix-raw", [("a", '{"n": 5}', T + 9, 0)])
    assert published() == [1, 3, 2, 5]
    assert [row.n for row in one.read(sums).collect()] == [5]


@pytest.mark.slow
def test_a_fix_amid_ticks_that_are_published_in_part_comes_after_them(
    lake, cluster, send, records, monkeypatch
) -> None:
    """Its position lies before theirs: counted among them, it would stand for one that is published."""
    monkeypatch.setattr(transactions, "RECORDS", 2)
    monkeypatch.setattr(transactions, "TOO_LARGE", 2)
    cluster.create("fix-much", partitions=1)
    stream = lh.stream("fix-much", key="k string", schema="n bigint", name="much")
    app = lh.app(stream.latest("fix_much"), stream.to_topic("fix-much-copy"))
    layout, publish = Layout((one := lake()).settings.lake.path), Publisher.publish
    send("fix-much", [("a", '{"n": "zero"}', T, 0), ("a", '{"n": 1}', T + 1, 0)])
    one.run(app, until="caught_up")
    send("fix-much", [("a", f'{{"n": {n}}}', T + n, 0) for n in range(2, 12)])
    left = 1

    def failing(self: Publisher, *given: Any) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError("out of power")
        return publish(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish", failing)
        with pytest.raises((JobFailed, OSError), match="out of power"):
            one.run(app, until="caught_up")
    with pytest.raises(PlanError, match="erase: topic 'fix-much-copy' has 4 records of ticks that are not through"):
        refuse_partial(layout, "erase")
    made = fixed_records(layout, app, "much", QuarantineChoice(), lambda record: b'{"n": 0}')
    one.replay(app, "much", made.fixed, reason="the sender wrote a word")
    one.run(app, until="caught_up")
    assert [json.loads(message.value())["n"] for message in records("fix-much-copy")] == [*range(1, 12), 0]
    refuse_partial(layout, "erase")
