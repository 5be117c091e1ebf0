"""An erasure reaches the published topic, also what a killed run had committed and not published."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import JobFailed
from lakehouse.run.job.publishing import Publishing

T = 1_700_000_000_000


@pytest.mark.slow
def test_a_delete_that_a_killed_run_did_not_publish_is_published_before_its_record_goes(
    lake: Any, cluster: Any, send: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("erased-in")
    people = lh.stream("erased-in", key="id string", schema="name string").latest("erased_people")
    app = lh.app(people.changes().to_topic("erased-out"))
    one = lake()
    send("erased-in", [("4711", json.dumps({"name": "Ann"}), T), ("4712", json.dumps({"name": "Bob"}), T)])
    one.run(app, until="caught_up")
    send("erased-in", [("4711", None, T + 1)])

    publish = Publishing.publish

    def fail_at_second_tick(self: Publishing, tick: int, limit: Any) -> Any:
        if tick == 2:
            raise OSError("killed before it published")
        return publish(self, tick, limit)

    with monkeypatch.context() as patched:
        patched.setattr(Publishing, "publish", fail_at_second_tick)
        with pytest.raises(JobFailed, match="killed before it published"):
            one.run(app, until="caught_up")
    assert [row.id for row in one.read(people).collect()] == ["4712"]
    outcome = one.erase(app, {"erased_in": "4711"}, reason="ticket 12")
    assert outcome.occurrences == ()
    last_values = {message.key(): message.value() for message in records("erased-out")}
    assert {key for key, value in last_values.items() if value is None} == {b"4711"}
    assert json.loads(last_values[b"4712"]) == {"name": "Bob"}
