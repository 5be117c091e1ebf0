"""When upkeep is due, and which anchors are thinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DAY = 86_400_000


def test_old_anchors_are_thinned_to_one_a_period() -> None:
    from lakehouse.delta.upkeep import surplus

    made = [(tick, tick * DAY) for tick in range(20)]
    assert surplus(made, None, 20 * DAY) == []
    gone = surplus(made, 5 * DAY, 20 * DAY)
    assert sorted({tick for tick, _ in made} - set(gone)) == [0, 5, 10, 15, 16, 17, 18, 19]
    assert surplus([], DAY, 0) == []


def test_upkeep_is_done_when_due_and_its_failure_stops_nothing(tmp_path: Path) -> None:
    from lakehouse.config import Upkeep
    from lakehouse.delta.layout import Layout
    from lakehouse.run.upkeeping import Upkeeping

    layout, calls, told, failed = Layout(str(tmp_path)), [], [], []

    def made(**settings: Any) -> Upkeeping:
        used = Upkeep(every_ticks=3, **settings)
        return Upkeeping(
            layout, used, "silver", calls.append, lambda done, seconds: told.append(seconds), failed.append
        )  # fmt: skip

    keeping = made(every_seconds=0.0)
    for tick in range(1, 8):
        keeping.after(tick)
    assert (len(calls), len(told)) == (2, 2)
    assert not calls[0].vacuum, "a day after the first tick at the earliest"
    made(every_seconds=0.0).after(9)
    assert len(calls) == 2, "what was done before a restart is known"
    made(every_seconds=0.0).after(10)
    made(every_seconds=3600.0).after(20)
    made(every_seconds=0.0, enabled=False).after(20)
    assert len(calls) == 3
    (tmp_path / "control" / "upkeep" / "silver.json").write_text("{half a")
    broken = made(every_seconds=0.0)
    broken._work = lambda policy: 1 // 0  # type: ignore[assignment, return-value]
    broken.after(1)
    broken.after(4)
    assert failed == ["ZeroDivisionError: integer division or modulo by zero"]
