"""Packing: an application gives the same result alone and together with others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.errors import NeedsSpark
from lakehouse.model.model import Result
from lakehouse.run.scenario.packing import Trial, pack, unpack
from lakehouse.run.scenario.scenario import Batch, build_records, find_files, load_application, on_model, read_scenario
from lakehouse.testing import Replay

SCENARIOS = [s for s in map(read_scenario, find_files(Path(__file__).parents[1] / "scenarios")) if s.error is None]


@pytest.mark.parametrize("batch", ["one", "all"])
def test_packed_scenarios_give_what_they_give_alone(batch: Batch):
    """All at once on the model; the prefix of a name changes no order and no meaning."""
    parts: list[Trial] = []
    alone: list[Result] = []
    for scenario in SCENARIOS:
        app = load_application(scenario)
        part = Trial(app, build_records(scenario, app, batch))
        with suppress(NeedsSpark):
            alone.append(on_model(*part))
            parts.append(part)
    packed = pack(parts)
    assert unpack(on_model(*packed), parts) == alone


def test_a_merge_of_streams_and_late_records_are_renamed_too():
    left = lh.stream("left", key="id string", schema="n bigint")
    right = lh.stream("right", key="id string", schema="n bigint")
    window = lh.tumbling("10 milliseconds", grace="0 milliseconds")
    counts = left.merge(right).group_by("id").window(window).agg(n=lh.count()).table("counts")
    replay = Replay(lh.app(counts))
    for topic, timestamp in (("left", 1), ("right", 2), ("left", 30), ("left", 5)):
        replay.send(topic, key="a", value={"n": 1}, timestamp=timestamp)
    part = Trial(replay.app, [item.record for item in replay._sent])
    packed = pack([part, part])
    results = unpack(on_model(*packed), [part, part])
    assert len(results[0].late["counts"]) == 1
    assert results == [on_model(*part)] * 2
