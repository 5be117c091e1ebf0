"""`lakehouse test run`: exit codes, lines, a report; on the model. Spark: tests/spark/test_scenarios.py, tests/run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

APP = """
import lakehouse as lh

cities = lh.stream("cities", key="name string", schema="city string")
counted = lh.app(cities.group_by("name").agg(n=lh.count()).table("visits"))
sounds = lh.app(cities.select("soundex(city) AS sound").latest("sounds"))

def wrong():
    return lh.app(cities.group_by("town").agg(n=lh.count()).table("towns"))
"""
INPUTS = [{"topic": "cities", "key": "alice", "value": {"city": "Paris"}, "timestamp": 5}] * 2
TWO = {"visits": [{"key": "alice", "value": {"n": 2}}]}


@pytest.fixture
def write(folder: Path):
    """Write a scenario into the folder `scenarios`, beside the application; return its path from the current folder."""
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "app.py").write_text(APP)

    def write(name: str, **content: Any) -> str:
        path = Path("scenarios") / f"{name}.json"
        path.write_text(json.dumps({"name": name, "app": "app:counted", "inputs": INPUTS, **content}))
        return str(path)

    return write


def test_all_passed(lakehouse, write):
    write("one", tables=TWO)
    write("two", outputs=[{"topic": "visits", "key": "alice", "value": {"n": n}} for n in (1, 2)])
    write("refused", app="app:wrong", error="town")
    actual = lakehouse("test", "scenarios")
    assert (actual.code, actual.err) == (0, "")
    assert actual.out.splitlines()[-1] == "3 passed, 0 failed"


def test_a_failure_shows_what_was_expected_and_found(lakehouse, write):
    write("right", tables=TWO)
    write("wrong", tables={"visits": [{"key": "alice", "value": {"n": 3}}]})
    actual = lakehouse("test", "scenarios")
    assert actual.code == 1
    assert actual.out.splitlines()[-1] == "1 passed, 1 failed"
    assert "FAILED  scenarios/wrong.json (model, batch all" in actual.out
    assert '- {"key":"alice","value":{"n":3}}' in actual.out
    assert '+ {"key":"alice","value":{"n":2}}' in actual.out


def test_a_file_named_together_with_its_folder_runs_once(lakehouse, write):
    assert lakehouse("test", write("one", tables=TWO), "scenarios").out.splitlines()[-1] == "1 passed, 0 failed"


def test_every_batching_counts(lakehouse, write):
    write("one", tables=TWO)
    actual = lakehouse("test", "scenarios", "--batch", "one", "--batch", "all", "--batch", "2", "--batch", "one")
    assert actual.out.splitlines()[-1] == "3 passed, 0 failed"
    assert [f"batch {batch}" in actual.out for batch in ("one", "all", 2)] == [True] * 3


BROKEN = {
    "text": "no JSON",
    "list": "[]",
    "sql": '{"statements": ["CREATE STREAM s;"], "outputs": []}',
    "nothing": '{"app": "app:counted"}',
    "module": '{"app": "nowhere:app", "tables": {}}',
    "name": '{"app": "app:nothing", "tables": {}}',
    "raises": '{"app": "raises:app", "tables": {}}',
    "ends": '{"app": "ends:app", "tables": {}}',
    "topic": '{"app": "app:counted", "inputs": [{"topic": "planes"}], "tables": {}}',
    "shape": '{"app": "app:counted", "inputs": 7, "tables": {}}',
}


def test_what_cannot_run_fails_alone_with_a_message(lakehouse, folder, write):
    write("right", tables=TWO)
    (folder / "scenarios" / "raises.py").write_text("app = 1 / 0")
    (folder / "scenarios" / "ends.py").write_text("raise SystemExit(3)")
    for name, text in BROKEN.items():
        (folder / "scenarios" / f"{name}.json").write_text(text)
    actual = lakehouse("test", "scenarios", "--report", "report.json")
    assert actual.code == 1
    assert actual.out.splitlines()[-1] == f"1 passed, {len(BROKEN)} failed"
    assert "Traceback" not in actual.out + actual.err
    failed = {line["name"]: line["message"] for line in json.loads(Path("report.json").read_text())}
    assert failed.pop("right") == ""
    assert all(failed.values())
    assert "ZeroDivisionError: division by zero" in failed["raises"]
    assert "the application reads cities" in failed["topic"]


def test_a_path_that_is_not_there_and_a_folder_without_scenarios_fail(lakehouse, folder, write):
    write("right", tables=TWO)
    (folder / "empty").mkdir()
    actual = lakehouse("test", "missing.json", "empty", "scenarios")
    assert actual.code == 1
    assert "missing.json: no such file or folder" in actual.out
    assert "no scenario in this folder" in actual.out
    assert actual.out.splitlines()[-1] == "1 passed, 2 failed"


def test_the_report(lakehouse, write):
    file = write("one", tables=TWO)
    wrong = write("two", tables={"visits": []})
    assert lakehouse("test", "scenarios", "--batch", "2", "--report", "scenarios/report.json").code == 1
    report = json.loads(Path("scenarios/report.json").read_text())
    assert [(line["file"], line["name"], line["passed"]) for line in report] == [
        (file, "one", True),
        (wrong, "two", False),
    ]
    assert all(set(line) == {"file", "name", "engine", "batch", "passed", "message", "seconds"} for line in report)
    assert {(line["engine"], line["batch"]) for line in report} == {("model", 2)}
    assert report[0]["seconds"] >= 0
    # The report is not read as a scenario, though it is in the same folder.
    assert lakehouse("test", "scenarios", "--report", "scenarios/report.json").out.endswith("1 passed, 1 failed\n")


def test_what_needs_spark_fails_on_the_model_and_says_so(lakehouse, write):
    write("sounds", app="app:sounds", tables={"sounds": [{"key": "alice", "value": {"sound": "P620"}}]})
    actual = lakehouse("test", "scenarios")
    assert actual.code == 1
    assert "needs Spark: " in actual.out
    assert "run with --engine spark" in actual.out


def test_with_both_engines_the_model_skips_what_needs_spark(lakehouse, write, monkeypatch):
    """Spark can't start here, so its results are failures."""
    from lakehouse.run.scenario import suite

    monkeypatch.setattr(suite, "spark_engine", lambda: 1 / 0)
    write("sounds", app="app:sounds", tables={"sounds": [{"key": "alice", "value": {"sound": "P620"}}]})
    write("one", tables=TWO)
    actual = lakehouse("test", "scenarios", "--engine", "both", "--report", "report.json")
    assert "skipped scenarios/sounds.json (model" in actual.out
    assert actual.out.splitlines()[-1] == "1 passed, 2 failed"
    assert len(json.loads(Path("report.json").read_text())) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch", "some"], 'expected "one", "all"'),
        (["--batch", "0"], 'expected "one", "all"'),
        (["--report", "no/where.json"], "there is no folder no"),
    ],
)
def test_wrong_options_are_bad_input(lakehouse, write, arguments, said):
    actual = lakehouse("test", write("one", tables=TWO), *arguments)
    assert actual.code == 2
    assert said in actual.err
    assert actual.out == ""


def test_the_model_starts_no_spark(write, folder):
    write("one", tables=TWO)
    code = (
        "import sys; from lakehouse.cli.main import main; code = main(['test', 'scenarios']);"
        "print(code, [name for name in ('pyspark', 'py4j', 'pandas', 'pyarrow', 'deltalake') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    assert process.stdout.splitlines()[-1] == "0 []"


def test_the_three_files_of_ksqldb(lakehouse: Any, folder: Path) -> None:
    (folder / "s.sql").write_text(
        "CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='t', value_format='JSON');\n"
        "CREATE STREAM big AS SELECT id, n FROM s WHERE n > 1;"
    )
    (folder / "i.json").write_text(
        '{"inputs": [{"topic": "t", "key": 1, "value": {"n": 2}}, {"topic": "t", "key": 2}]}'
    )
    (folder / "o.json").write_text('{"outputs": [{"topic": "BIG", "key": 1, "value": {"N": 2}}]}')
    outcome = lakehouse("test", "-s", "s.sql", "-i", "i.json", "-o", "o.json")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "1 passed, 0 failed")
    (folder / "o.json").write_text('{"outputs": [{"topic": "BIG", "key": 1, "value": {"N": 3}}]}')
    assert lakehouse("test", "run", "-s", "s.sql", "-i", "i.json", "-o", "o.json").code == 1
    assert lakehouse("test", "run", "-s", "s.sql").code == 2
    assert lakehouse("test", "run").code == 2
    (folder / "i.json").write_text("[]")
    assert 'expected {"inputs": [' in lakehouse("test", "run", "-s", "s.sql", "-i", "i.json", "-o", "o.json").err
