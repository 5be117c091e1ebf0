"""Fixed records in the topic of a published stream: each once, when it is fixed."""

from __future__ import annotations

import json

import pytest

import lakehouse as lh
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import Choice, count_quarantined_records
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
    made = fixed_records(layout, app, "raw", Choice(), lambda record: fixes[record.offset])
    one.replay(app, "raw", made.fixed, reason="the sender wrote words")
    assert count_quarantined_records(layout, "raw") == (2, 0)
    assert published() == [1, 3, 2], "the other one does not pass the filter"
    assert published() == [1, 3, 2]
    send("fix-raw", [("a", '{"n": 5}', T + 9, 0)])
    assert published() == [1, 3, 2, 5]
    assert [row.n for row in one.read(sums).collect()] == [5]
