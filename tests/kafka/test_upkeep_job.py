"""Upkeep in a running job: between batches, reported as events; a failure stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.run.lake import Lake
from lakehouse.run.watch.event import JobEvent
from lakehouse.settings.config import Upkeep


@pytest.mark.slow
def test_a_job_does_its_lakes_upkeep(
    lake: Callable[..., Lake],
    cluster: Any,
    send: Callable[..., int],
    latest: Callable[..., lh.App],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lakehouse.spark.silver import upkeep

    cluster.create("kept-up", 1)
    app = latest("kept-up")
    settings = Upkeep(every_ticks=1, every_seconds=0.0, optimize_files=2, anchors_every="1 second")
    used = Lake(settings=replace(lake().settings, upkeep=settings))
    heard: list[JobEvent] = []
    for n in range(3):
        send("kept-up", [(f"k{n}", f"word {n}", 1000 + n)])
        used.run(app, until="caught_up", listen=heard.append)
    done = [event for event in heard if event.kind == "upkeep"]
    assert {event.details["part"].split("-")[0] for event in done} == {"bronze", "silver"}
    assert any(event.details["files_after"] < event.details["files_before"] for event in done)
    assert not [event for event in heard if event.kind == "upkeep failed"]

    def broken(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(upkeep, "upkeep_table", broken)
    send("kept-up", [("k3", "word 3", 2000)])
    used.run(app, until="caught_up", listen=heard.append)
    (failed,) = [event for event in heard if event.kind == "upkeep failed"]
    assert failed.details["message"] == "OSError: the disk is full"
    assert sorted(row["word"] for row in used.read(app.tables[0]).collect()) == [f"word {n}" for n in range(4)]
