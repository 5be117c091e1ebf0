"""A table of another application that stands still is told once, and again when it has moved and stands again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.lake.control.writer_leases import table_lease
from lakehouse.lake.layout import Layout
from lakehouse.run.job import standstill
from lakehouse.run.job.standstill import Standstill
from lakehouse.spark.silver.upstream_ticks import Waiting


def test_each_standstill_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(str(tmp_path))
    now = 100.0
    monkeypatch.setattr(standstill.time, "monotonic", lambda: now)
    watched = Standstill(layout)
    at_four, at_five = Waiting("planes", 4, ("enriched",)), Waiting("planes", 5, ("enriched",))

    def told(*waiting: Waiting) -> list[tuple[Waiting, bool]]:
        return list(watched.look([*waiting], 10))

    assert told(at_four) == []
    now += 9
    assert told(at_four) == []
    now += 1
    assert told(at_four) == [(at_four, False)]
    now += 60
    assert told(at_four) == []
    assert told(at_five) == []  # it has moved
    now += 10
    with table_lease(layout, "planes"):
        assert told(at_five) == [(at_five, True)]
    assert told() == []
    assert told(at_five) == []  # a batch of the others was under way
    now += 10
    assert told(at_five) == [(at_five, False)]
    assert list(Standstill(layout).look([at_four], 0)) == [(at_four, False)]
