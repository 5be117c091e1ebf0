"""Scenarios on real Spark and Delta, packed into one lake: one Spark job takes in a tick for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.run.scenario.packing import Trial, pack, unpack
from lakehouse.run.scenario.scenario import Batch, Scenario, build_records, check_scenario, load_application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_trial(scenario: Scenario, batch: Batch) -> Trial:
    """Return a scenario's application and its records, with the ticks of a batching."""
    app = load_application(scenario)
    return Trial(app, build_records(scenario, app, batch))


def check_on_spark(
    spark: SparkSession, folder: Path, scenarios: list[Scenario], batch_of: Callable[[Scenario], Batch]
) -> None:
    """Run scenarios in one lake below a folder, and fail with the lines of all that do not give what they expect."""
    from lakehouse.run.scenario.replay import SparkReplay

    trials = [build_trial(scenario, batch_of(scenario)) for scenario in scenarios]
    packed = pack(trials)
    results = unpack(SparkReplay(spark, folder)(packed.app, packed.records), trials)
    failures = [
        f"{scenario.path.name}, batch {batch_of(scenario)}: {line}"
        for scenario, result in zip(scenarios, results, strict=True)
        for line in check_scenario(scenario, lambda *_, result=result: result, batch_of(scenario))
    ]
    assert not failures, "\n".join(failures)
