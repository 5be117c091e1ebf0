"""Every scenario file on real Spark and Delta. What counts as passing is this.

All scenarios go through one lake at once, each under names of its own: one Spark job takes in a tick of all of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.plan.declare import App, Sink, Source, Stream, Table
from lakehouse.plan.model import Result
from lakehouse.run.scenario import Batch, Scenario, application, check, find, read, records
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent.parent / "scenarios"
SCENARIOS = [scenario for scenario in map(read, find(FOLDER)) if scenario.error is None]


def prefixed(app: App, prefix: str) -> App:
    """The same application under other names, so that many fit into one lake."""

    def source(item: Source) -> Source:
        return replace(item, name=prefix + item.name, topic=prefix + item.topic)

    def stream(item: Stream) -> Stream:
        return replace(item, source=source(item.source))

    def table(item: Table) -> Table:
        return replace(item, name=prefix + item.name, stream=stream(item.stream))

    def sink(item: Sink) -> Sink:
        of = table(item.of) if isinstance(item.of, Table) else stream(item.of)
        return replace(item, topic=prefix + item.topic, of=of)

    return App(tuple(map(table, app.tables)), tuple(map(sink, app.sinks)), tuple(map(source, app.sources)))


def packed(scenarios: list[Scenario], batch: Batch) -> tuple[App, list[Record]]:
    """One application and one history that hold those of all scenarios."""
    tables: list[Table] = []
    sinks: list[Sink] = []
    sources: list[Source] = []
    history: list[Record] = []
    for number, scenario in enumerate(scenarios):
        prefix, app = f"s{number}_", application(scenario)
        named = prefixed(app, prefix)
        tables += named.tables
        sinks += named.sinks
        sources += named.sources
        history += [
            replace(r, topic=prefix + r.topic, topic_id=prefix + r.topic_id) for r in records(scenario, app, batch)
        ]
    return App(tuple(tables), tuple(sinks), tuple(sources)), history


def part(result: Result, prefix: str, inputs: list[Record]) -> Result:
    """What a packed run gave for one of its scenarios."""

    def own(values: dict[str, Any]) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}

    quarantine = own(result.quarantine)
    original = {(record.topic, record.partition, record.offset): record for record in inputs}
    restored = {
        name: [(original[r.topic.removeprefix(prefix), r.partition, r.offset], reason) for r, reason in pairs]
        for name, pairs in quarantine.items()
    }
    return Result(own(result.tables), own(result.changelogs), own(result.topics), restored, own(result.null_keys))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "batch", ["all", pytest.param("one", marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_every_scenario(spark: SparkSession, tmp_path: Path, batch: Batch) -> None:
    from lakehouse.run.replay import SparkReplay

    app, history = packed(SCENARIOS, batch)
    result = SparkReplay(spark, tmp_path)(app, history)
    failures: list[str] = []
    for number, scenario in enumerate(SCENARIOS):

        def engine(app: App, inputs: list[Record], number: int = number) -> Result:
            return part(result, f"s{number}_", inputs)

        failures += [f"{scenario.path.name}, batch {batch}: {line}" for line in check(scenario, engine, batch)]
    assert not failures, "\n".join(failures)
