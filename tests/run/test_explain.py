"""Explain without Spark: folding one key's records gives what the model makes of all records, in every scenario."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import applied_records
from lakehouse.model.model import Result
from lakehouse.plan.operator import Final, Having, Suppress
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Table
from lakehouse.run.explain import explain as explaining
from lakehouse.run.explain import explanation
from lakehouse.run.explain.key_records import key_to_text, parse_sought
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.as_written import plain_value
from lakehouse.run.scenario.keys import keys_of
from lakehouse.run.scenario.scenario import build_records, find_files, load_application, on_model, read_scenario
from lakehouse.semantics.moment import AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.record import Record

from .model_lake import write_lake

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = [scenario for scenario in map(read_scenario, find_files(FOLDER)) if scenario.error is None]

EVENTS = lh.stream("events", key="id string", schema="n int, who string")
WINDOW = lh.tumbling("10 milliseconds", grace="0 milliseconds")
LAST = EVENTS.latest("last")
SUMS = EVENTS.group_by("id").agg(total=lh.sum("n")).table("sums")
PAIRS = EVENTS.group_by("who", "n > 2 AS much").agg(n=lh.count()).table("pairs")
WINDOWS = EVENTS.group_by("id").window(WINDOW).agg(n=lh.count()).table("windows")
FINAL = EVENTS.group_by("id").window(WINDOW).agg(n=lh.count()).table("final", emit="final")
APP = lh.app(LAST, SUMS, PAIRS, WINDOWS, FINAL)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.path.stem)
def test_one_keys_records_give_the_steps_of_all_records(scenario: Any, tmp_path: Path) -> None:
    app, layout = load_application(scenario), Layout(str(tmp_path))
    actual = build_records(scenario, app, 2)
    result = on_model(app, actual)
    last = write_lake(layout, app, actual, result, silver=False)
    for table in app.tables:
        # Of tables that read tables, or a join of streams, Spark gives the steps: tests/spark/test_graph.py,
        # tests/spark/test_stream_joins_past.py.
        if not table.stream.reads and not meeting_streams(table.stream):
            check(layout, table, result, last)


def check(layout: Layout, table: Table, result: Result, last: int) -> None:
    columns = keys_of(table).columns
    changes = result.changelogs[table.name]
    keys = {key_to_text(change.key[: len(columns)]) for change in changes if change.key is not None}
    steps: dict[Any, tuple[explanation.RowStep, ...]] = {}
    for key in keys:
        steps |= explaining.fold_steps(layout, table, parse_sought(layout, table, key), applied_records.Cut(last))
    for of, happened in steps.items():
        wanted = [(change.position, plain_value(change.value)) for change in changes if change.key == of]
        seen = [(step.position, plain_value(step.row)) for step in happened if in_changelog(table, step)]
        if table.find(Final):  # one change, at the record that closed the window, mostly another key's
            wanted, seen = [(None, value) for _, value in wanted], [(None, seen[-1][1])] if wanted else []
        assert seen == wanted, (table.name, of)
    assert {change.key for change in changes} <= set(steps)
    reached = {step.position for happened in steps.values() for step in happened}
    late = [late.position for late in result.late[table.name] if late.position in reached]
    assert sorted(s.position for happened in steps.values() for s in happened if s.did == "late") == sorted(late)


def in_changelog(table: Table, step: explanation.RowStep) -> bool:
    if step.did in ("late", "superseded", "left out by HAVING"):
        return False
    if table.find(Suppress) and step.did == "unchanged":
        return False
    return not (table.find(Having) and step.did == "unchanged" and step.row is None)


def record(number: int, key: str | None, value: str | None, time: int, tick: int = 1) -> Record:
    data = (None if text is None else text.encode() for text in (key, value))
    return Record("events", "id", 0, number, time, *data, tick, max(time, 0))


INPUT = [
    record(0, "a", '{"n": 1, "who": "ann"}', 1),
    record(1, "b", '{"n": 5, "who": "ann"}', 12),
    record(2, "a", '{"n": 2, "who": "o\'neil, x"}', 13),
    record(3, "a", '{"n": 4, "who": "ann"}', 9, tick=2),
    record(4, "a", "no json", 14, tick=2),
    record(5, None, '{"n": 9, "who": null}', 15, tick=3),
    record(6, "a", None, 16, tick=3),
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    write_lake(Layout(str(tmp_path)), APP, INPUT, on_model(APP, INPUT))
    return lake


def told(row: explanation.Explained) -> list[tuple[int, str, Any]]:
    return [(step.position.offset, step.did, step.row) for step in row.steps]


def test_the_latest_value_and_a_delete(lake: Lake) -> None:
    (row,) = lake.explain(LAST, "a")
    assert [(offset, did) for offset, did, _ in told(row)] == [
        (0, "inserted"), (2, "updated"), (3, "updated"), (6, "deleted"),
    ]  # fmt: skip
    step = row.steps[0]
    assert (step.record_key, step.record_value, step.event_ms) == ("a", {"n": 1, "who": "ann"}, 1)
    assert (row.row, row.found, row.agrees) == (None, None, True)


def test_a_table_that_somebody_changed_is_reported(lake: Lake) -> None:
    from deltalake import DeltaTable

    (row,) = lake.explain(SUMS, "a")
    assert told(row) == [(0, "inserted", {"total": 1}), (2, "updated", {"total": 3}), (3, "updated", {"total": 7})]
    assert (row.key, row.found, row.agrees, row.note) == ({"id": "a"}, {"total": 7}, True, None)
    DeltaTable(f"{lake.settings.lake.path}/silver/sums").update(updates={"total": "99"}, predicate="id = 'a'")
    (row,) = lake.explain(SUMS, "a")
    assert (row.row, row.found, row.agrees) == ({"total": 7}, {"total": 99}, False)
    assert "somebody else has changed it" in str(row.note)
    DeltaTable(f"{lake.settings.lake.path}/silver/sums").delete("id = 'a'")
    assert lake.explain(SUMS, "a")[0].found is None
    assert lake.explain(SUMS, "a", AtVersion(0))[0].agrees


@pytest.mark.parametrize(
    ("folded", "stored", "is_same"),
    [
        (1e-9, 9e-7, False), (0.0, 1e-300, False), (1.0, 1.0 + 1e-9, False), (1e300, 1.1e300, False),
        (0.1 + 0.2, 0.3, True), (-0.0, 0.0, True), (float("nan"), float("nan"), True), (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True), (float("inf"), 1e308, False), (None, 0.0, False), (True, 1.0, False),
    ],
)  # fmt: skip
def test_another_double_is_another_row(folded: Any, stored: Any, is_same: bool) -> None:
    for wrap in (lambda value: value, lambda value: [value], lambda value: {"x": value}):
        step = explanation.RowStep(INPUT[0].position, "inserted", {"total": wrap(folded)})
        row = explanation.compare_with_table(SUMS, ("a",), (step,), {"total": wrap(stored)}, None)
        assert row.agrees is is_same


def test_windows_each_on_its_own_and_late_records(lake: Lake) -> None:
    first, second = lake.explain(WINDOWS, "a")
    assert told(first) == [(0, "inserted", {"n": 1}), (3, "late", {"n": 1})]
    assert told(second) == [(2, "inserted", {"n": 1})]
    assert first.agrees
    assert second.agrees
    closed, still_open = lake.explain(FINAL, "a")
    assert (closed.row, closed.found, closed.note) == ({"n": 1}, {"n": 1}, None)
    assert (still_open.found, still_open.agrees) == (None, True)
    assert "not closed yet" in str(still_open.note)


def test_composite_keys_with_commas_inside(lake: Lake) -> None:
    assert [offset for offset, *_ in told(lake.explain(PAIRS, "ann,true")[0])] == [1, 3]
    assert told(lake.explain(PAIRS, '"o\'neil, x",false')[0]) == [(2, "inserted", {"n": 1})]


@pytest.mark.parametrize(
    ("at", "offsets"), [(AtTick(1), [0, 2]), (AtEvent(9), [0, 3]), (AtOffsets({"events": {0: 3}}), [0, 2])]
)
def test_only_the_records_that_count_at_a_moment(lake: Lake, at: Any, offsets: list[int]) -> None:
    """Only Spark can read the table at such a moment: it is not compared here."""
    layout = Layout(lake.settings.lake.path)
    steps = explaining.fold_steps(
        layout, SUMS, parse_sought(layout, SUMS, "a"), applied_records.read_applied_records(layout, SUMS, at).cut
    )
    assert [step.position.offset for step in steps["a",]] == offsets


@pytest.mark.parametrize(
    ("table", "key", "at", "said"),
    [
        (SUMS, "aa", None, "no record in bronze reaches it. The nearest keys: a; b."),
        (PAIRS, "ann", None, "Expected who string,much boolean: the values joined by commas"),
        (PAIRS, "nobody,true", None, "A key of several columns is its values joined by commas: who,much;"),
        (LAST, "a", AtTick(9), "is at tick 3"),
        (LAST, "a", AtVersion(7), "no version 7"),
        (SUMS, "a", AtOffsets({"events": {1: 3}}), "add events/0=7"),
        (SUMS, "a", AtOffsets({"other": {0: 3}}), "does not read topic 'other'"),
        (EVENTS.latest("elsewhere"), "a", None, "table 'elsewhere' does not exist"),
    ],
)
def test_what_cannot_be_explained(lake: Lake, table: Table, key: str, at: Any, said: str) -> None:
    with pytest.raises(LakehouseError) as actual:
        lake.explain(table, key, at)
    assert isinstance(actual.value, NotFound | ConfigError)
    assert said in str(actual.value)


def test_a_name_is_no_table(tmp_path: Path) -> None:
    lake, name = Lake(tmp_path), cast(Any, "newest")
    calls: list[Callable[[], object]] = [
        lambda: lake.read(name), lambda: lake.read(name, tick=1), lambda: lake.diff(name, "1"),
        lambda: lake.changes(name), lambda: lake.explain(name, "a"), lambda: lake.tick(name),
        lambda: lake.audit(cast(Any, None), name),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ConfigError, match=r"'newest': expected a declared table, such as app.table"):
            call()
