"""A table of another application that stands still is told once, and again when it has moved and stands again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.lake.control.writer_leases import table_lease
from lakehouse.lake.layout import Layout
from lakehouse.run.job import standstill
from lakehouse.run.job.standstill import Standstill
from lakehouse.spark.silver.schema_ticks import SchemaWaiting
from lakehouse.spark.silver.upstream_ticks import UpstreamWaiting


def details(tick: int, *, is_kept: bool) -> dict[str, Any]:
    return {"upstream": "planes", "tick": tick, "readers": ["enriched"], "is_kept": is_kept}


def test_each_standstill_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(str(tmp_path))
    now = 100.0
    monkeypatch.setattr(standstill.time, "monotonic", lambda: now)
    watched = Standstill(layout)
    at_four, at_five = UpstreamWaiting("planes", 4, ("enriched",)), UpstreamWaiting("planes", 5, ("enriched",))

    def told(*waiting: UpstreamWaiting | SchemaWaiting) -> list[dict[str, Any]]:
        return list(watched.look([*waiting], 10))

    assert told(at_four) == []
    now += 9
    assert told(at_four) == []
    now += 1
    assert told(at_four) == [details(4, is_kept=False)]
    now += 60
    assert told(at_four) == []
    assert told(at_five) == []  # it has moved
    now += 10
    with table_lease(layout, "planes"):
        assert told(at_five) == [details(5, is_kept=True)]
    assert told() == []
    assert told(at_five) == []  # a batch of the others was under way
    now += 10
    assert told(at_five) == [details(5, is_kept=False)]
    assert list(Standstill(layout).look([at_four], 0)) == [details(4, is_kept=False)]
    schemas = SchemaWaiting("orders", 4, "no answer", ("enriched",))
    expected = {"topic": "orders", "tick": 4, "reason": "no answer", "readers": ["enriched"]}
    assert list(Standstill(layout).look([schemas], 0)) == [expected]
