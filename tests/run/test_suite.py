"""Many scenarios on Spark: packed together, and a failing one runs alone. A fake engine stands for Spark."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from lakehouse.model.model import Result
from lakehouse.run.scenario import suite
from lakehouse.run.scenario.scenario import on_model
from lakehouse.run.scenario.suite import CaseResult, find_cases, run_cases, run_on_spark, write_report

APP = """
import lakehouse as lh
numbers = lh.stream("numbers", key="id string", schema="n bigint")
sums = lh.app(numbers.group_by("id").agg(total=lh.sum("n")).table("totals"))
"""

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "app.py", line 3, in fold
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

JVM stacktrace:
org.apache.spark.api.python.PythonException
\tat org.apache.spark.Nowhere.run(Nowhere.scala:1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five scenarios; the third is wrong, the fourth can't be read."""
    (tmp_path / "app.py").write_text(APP)
    for number in (1, 2, 3, 5):
        content = {
            "app": "app:sums",
            "inputs": [{"topic": "numbers", "key": "a", "value": {"n": number}}],
            "tables": {"totals": [{"key": "a", "value": {"total": 0 if number == 3 else number}}]},
        }
        (tmp_path / f"s{number}.json").write_text(json.dumps(content))
    (tmp_path / "s4.json").write_text("[]")
    return tmp_path


class Engine:
    """The model, raising at a record with the number `poison`; counts its runs."""

    def __init__(self, poison: int | None = None) -> None:
        self.poison = poison
        self.runs = 0

    def __call__(self, app, records) -> Result:
        self.runs += 1
        if any(record.value == b'{"n":%d}' % (self.poison or -1) for record in records):
            raise RuntimeError(TRACE)
        return on_model(app, records)


def test_one_run_serves_all_and_outcomes_are_in_order(folder: Path):
    engine = Engine()
    outcomes = list(run_on_spark(find_cases([folder]), "all", engine))
    assert engine.runs == 1
    assert [(o.name, o.passed) for o in outcomes] == [
        ("s1", True), ("s2", True), ("s3", False), ("s4", False), ("s5", True),
    ]  # fmt: skip
    assert {o.engine for o in outcomes} == {"spark"}


def test_results_are_told_as_soon_as_their_pack_has_run(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(suite, "PACKS", (1, 2))
    engine = Engine()
    runs = [engine.runs for _ in run_on_spark(find_cases([folder]), "all", engine)]
    assert runs == [1, 2, 2, 3, 3]


SQL = """CREATE STREAM numbers (id VARCHAR KEY, n BIGINT) WITH (kafka_topic='numbers', value_format='JSON');
CREATE TABLE totals AS SELECT id, SUM(n) AS total FROM numbers GROUP BY id;"""


@pytest.mark.parametrize(
    ("named", "passed"),
    [
        ("app:sums", True), ("app.py:sums", True), ("app.py", True), ("queries.sql", True), ("queries.sql:app", True),
        ("queries:app", True), ("below/more.sql", True), ("app.py:no_such", False), ("no_such.sql", False),
        ("app", None),
    ],
)  # fmt: skip
def test_an_application_is_named_as_the_commands_name_it(tmp_path: Path, named: str, passed: bool | None) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "below").mkdir()
    for file in ("queries.sql", "below/more.sql"):
        (tmp_path / file).write_text(SQL)
    inputs = [{"topic": "numbers", "key": "a", "value": {"n": 2}}]
    table, column = ("TOTALS", "TOTAL") if "sql" in named or "queries" in named else ("totals", "total")
    content = {"app": named, "inputs": inputs, "tables": {table: [{"key": "a", "value": {column: 2}}]}}
    (tmp_path / "scenario.json").write_text(json.dumps(content))
    [case] = find_cases([tmp_path / "scenario.json"])
    assert (case.scenario is None) == (passed is None), case.refused
    [result] = suite.run_on_model([case], "all")
    assert result.passed is bool(passed), result.message
    assert passed is not None or 'expected "app.py:name", "app.sql", or "module:name"' in result.message


BESIDE = """
from __future__ import annotations
from dataclasses import dataclass
import {helpers}
import lakehouse as lh

@dataclass
class Limits:
    least: int

numbers = lh.stream("numbers", key="id string", schema="n bigint")
def made() -> lh.App:
    from {helpers} import NAME
    return lh.app(numbers.group_by("id").agg(total=lh.sum("n")).table(NAME))
sums = made()
"""


@pytest.mark.parametrize("named", ["app:sums", "app:made", "app.py:sums"])
def test_a_scenario_takes_an_application_that_a_run_takes(tmp_path: Path, named: str) -> None:
    """It imports a file beside it, has a dataclass, and is no other than its text of now."""
    for folder_name in ("first", "second"):
        folder = tmp_path / folder_name
        folder.mkdir()
        (folder / "app.py").write_text(BESIDE.format(helpers="scenario_helpers"))
        (folder / "scenario_helpers.py").write_text(f"NAME = {folder_name!r}")
        rows = [{"key": "a", "value": {"total": 2}}]
        inputs = [{"topic": "numbers", "key": "a", "value": {"n": 2}}]
        (folder / "scenario.json").write_text(
            json.dumps({"app": named, "inputs": inputs, "tables": {folder_name: rows}})
        )
        [result] = suite.run_on_model(find_cases([folder / "scenario.json"]), "all")
        assert result.passed, result.message
        assert not list(folder.glob("__pycache__/app.*"))


def test_one_bad_scenario_fails_no_other(folder: Path):
    outcomes = {o.name: o for o in run_on_spark(find_cases([folder]), "one", Engine(poison=2))}
    assert [name for name, o in outcomes.items() if not o.passed] == ["s2", "s3", "s4"]
    assert outcomes["s2"].message == "RuntimeError: ZeroDivisionError: division by zero"
    assert outcomes["s5"].passed


def test_if_spark_does_not_start_its_scenarios_fail(folder: Path):
    @contextmanager
    def no_spark():
        raise RuntimeError("no Java")
        yield

    outcomes = list(run_cases(find_cases([folder / "s1.json"]), ["model", "spark"], ["all", "one"], no_spark))
    assert [(o.engine, o.batch, o.passed) for o in outcomes] == [
        ("model", "all", True), ("model", "one", True), ("spark", "all", False), ("spark", "one", False),
    ]  # fmt: skip
    assert outcomes[-1].message == "Spark did not start: RuntimeError: no Java"


def test_a_file_is_run_once_and_other_folders_are_left_out(folder: Path):
    (folder / "lake" / "bronze" / "records" / "_delta_log").mkdir(parents=True)
    for place in ("lake/control/published", "elsewhere/_delta_log", ".kafka"):
        (folder / place).mkdir(parents=True)
        (folder / place / "some.json").write_text("{}")
    actual = find_cases([folder / "s1.json", folder], excluded_file=folder / "s5.json")
    assert [case.file.name for case in actual] == ["s1.json", "s2.json", "s3.json", "s4.json"]


def test_what_is_no_file_is_left_out_of_a_folder(folder: Path):
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "folder.json" / "s6.json").write_text("{}")
    (folder / "link.json").symlink_to("nowhere")
    names = {case.file.name for case in find_cases([folder])}
    assert names == {"s1.json", "s2.json", "s3.json", "s4.json", "s5.json", "s6.json", "link.json"}


def test_a_report_takes_any_name(tmp_path: Path):
    outcome = CaseResult("\udcff.json", "\ud800", "model", "all", False, "\udfff", 0.0)
    write_report(tmp_path / "report.json", [outcome])
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == [asdict(outcome)]
