"""Scenario files on real Spark and Delta: the result that counts.

Many scenarios go through one lake at once, each under names of its own: one Spark job takes in a tick for all of them.
A few hold every kind of step, window, aggregate, option and format between them. The core runs a tenth of these in one
batch, another tenth in each run; `make test-all` runs all of them, in one batch and in two, and the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakehouse.plan.alert import ALWAYS, Crossings
from lakehouse.plan.app import App
from lakehouse.plan.operator import Expire, Final, Having, Suppress
from lakehouse.plan.origin import Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.run.scenario.scenario import Batch, Scenario, find_files, load_application, read_scenario
from tests.packed import build_trial, check_on_spark
from tests.seeds import DRAWN, draw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent.parent / "scenarios"
SCENARIOS = [scenario for scenario in map(read_scenario, find_files(FOLDER)) if scenario.error is None]


def halves(scenario: Scenario) -> Batch:
    """How many records make two batches of a scenario."""
    return max((len(build_trial(scenario, "all").records) + 1) // 2, 1)


def whole(scenario: Scenario) -> Batch:
    return "all"


def kinds(app: App) -> set[object]:
    """The kinds of everything that an application consists of."""
    result: set[object] = {(s.key_format, s.value_format, s.event_time is None, s.own_table) for s in app.sources}
    result |= {("max_ahead", s.max_ahead is not None) for s in app.sources}
    result |= {("renamed", column.is_renamed) for s in app.sources for column in s.value}
    for table in app.tables:
        result |= {type(table.fold), type(table.fold.window)}
        result |= {(kind, table.find(kind) is not None) for kind in (Final, Having, Expire, Suppress)}
        result |= {("idle", table.idle is not None), ("remembers", getattr(table.fold, "remembers", None) is not None)}
        result |= {item.kind for item in table.fold.aggregations} | steps(table.stream)
    for sink in app.sinks:
        result |= {(type(sink.source), sink.mode)} | (set() if isinstance(sink.source, Table) else steps(sink.source))
    return result


def steps(stream: Stream) -> set[object]:
    origin = stream.source
    how: set[object] = set()
    if isinstance(origin, TableJoin):
        how = {origin.join_type, origin.as_of, ("broadcast", origin.broadcast)}
    elif isinstance(origin, StreamJoin):
        how = {(StreamJoin, origin.join_type), ("at once", origin.within.eager)}
    elif isinstance(origin, Crossings):
        how = {("always", origin.when.text == ALWAYS)}
    elif isinstance(origin, RowsJoin | ForeignKeyJoin):
        how = {(type(origin), origin.join_type)}
    return {type(step) for step in stream.steps}.union({type(origin)} - {Source}, how, *map(steps, origin.parts))


@cache
def few() -> list[Scenario]:
    """Scenarios that hold every kind between them, in few tables and sinks: each costs seconds on Spark."""
    result = [(scenario, load_application(scenario)) for scenario in SCENARIOS]
    left = [(scenario, kinds(app), 3 + len(app.tables) + len(app.sinks)) for scenario, app in result]
    wanted = set[object]().union(*(of for _, of, _ in left))
    chosen: list[Scenario] = []
    while wanted:
        scenario, new, _ = max(left, key=lambda item: len(item[1] & wanted) / item[2])
        chosen.append(scenario)
        wanted -= new
    return chosen


def tenth() -> list[Scenario]:
    """A tenth of the few, drawn for this run."""
    return Random(draw()).sample(few(), -(-len(few()) // 10))


def rest() -> list[Scenario]:
    return [scenario for scenario in SCENARIOS if scenario not in few()]


@pytest.mark.parametrize(
    ("choice", "batch"),
    [
        # Each table in each batch takes seconds. The model takes in every scenario one by one: tests/plan.
        (tenth, whole),
        pytest.param(few, whole, marks=pytest.mark.slow),
        pytest.param(few, halves, marks=pytest.mark.slow),
        pytest.param(rest, whole, marks=pytest.mark.slow),
    ],
    ids=[f"tenth-{DRAWN}", "few-all", "few-halves", "rest-all"],
)
def test_scenarios(
    spark: SparkSession,
    tmp_path: Path,
    choice: Callable[[], list[Scenario]],
    batch: Callable[[Scenario], Batch],
) -> None:
    check_on_spark(spark, tmp_path, choice(), batch)
