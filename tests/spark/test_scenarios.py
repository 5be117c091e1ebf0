"""Every scenario file on real Spark and Delta. What counts as passing is this.

All scenarios go through one lake at once, each under names of its own: one Spark job takes in a tick of all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.run.packing import Part, pack, unpack
from lakehouse.run.scenario import Batch, Scenario, application, check, find, read, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent.parent / "scenarios"
SCENARIOS = [scenario for scenario in map(read, find(FOLDER)) if scenario.error is None]


def part(scenario: Scenario, batch: Batch) -> Part:
    app = application(scenario)
    return Part(app, records(scenario, app, batch))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "batch", ["all", pytest.param("one", marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_every_scenario(spark: SparkSession, tmp_path: Path, batch: Batch) -> None:
    from lakehouse.run.replay import SparkReplay

    parts = [part(scenario, batch) for scenario in SCENARIOS]
    packed = pack(parts)
    results = unpack(SparkReplay(spark, tmp_path)(packed.app, packed.records), parts)
    failures: list[str] = []
    for scenario, result in zip(SCENARIOS, results, strict=True):
        found = check(scenario, lambda *_, result=result: result, batch)
        failures += [f"{scenario.path.name}, batch {batch}: {line}" for line in found]
    assert not failures, "\n".join(failures)
