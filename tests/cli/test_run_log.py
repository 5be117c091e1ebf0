"""`lakehouse run` as lines of a log: where there is no terminal, or by setting; an error as a line of JSON."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import typer

import lakehouse as lh
from lakehouse.cli.start.run_app import errors_as_lines, print_summary, run_logged_in_lines, shows_lines
from lakehouse.errors import ConfigError, LeaseHeld
from lakehouse.run.watch.event import JobEvent
from lakehouse.settings.config import Settings, load

from .conftest import Command

APP = lh.app(lh.stream("readings", key="id string", schema="n int").latest("newest"))
DONE = {"event": "done", "rows": 1_200, "tick": 7, "tables": {}, "seconds": 2.5}


def settings(folder: Path, **log: str) -> Settings:
    environ = {f"LAKEHOUSE_LOG_{name.upper()}": value for name, value in log.items()}
    return load(environ={"LAKEHOUSE_LAKE_PATH": str(folder / "lake"), **environ}, start=folder)


def test_a_run_begins_and_ends_with_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run_logged_in_lines(settings(tmp_path), APP, "here:9092") as lines:
        lines(JobEvent("tick", 7, 1_200, 1.0, {"took": 0.5}))
        lines.write_summary({**DONE, "quarantined": {"readings": 1_100}})
    said = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        f"info    run: readings of Kafka on here:9092 into {tmp_path}/lake",
        "info    tick 7: 1,200 records in bronze (0.5 s)",
        "info    done: 1,200 records ingested in 2.5 s; bronze is at tick 7; in the quarantine: readings 1,100",
    ]


def test_a_run_warns_at_its_begin_and_says_at_its_end_which_records_had_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = lh.app(lh.stream("readings", key="id string", schema="n int").latest("newest", order_by="n"))
    tables = {"newest": {"rows": 0}, "counts": {"rows": 2}}
    done = {**DONE, "tables": tables, "null_keys": {"newest": 1_200, "counts": 1}}
    with run_logged_in_lines(settings(tmp_path), app, "here:9092") as lines:
        lines.write_summary(done)
    said = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert said[1].startswith("warning table 'newest': order_by=n: a null value has no such number")
    assert said[2].endswith("bronze is at tick 7; without a key: newest 1,200, counts 1")
    assert len(said) == 4
    assert said[3].startswith("warning newest: 0 rows, 1,200 records without a key: a table needs one. `rekey` gives")
    print_summary(done)
    out = " ".join(capsys.readouterr().out.split())
    assert "newest: 0 rows, 1,200 records without a key: a table needs one. `rekey` gives one" in out
    assert "counts: 1 record without a key, left out." in out


def test_as_json_every_line_is_an_object_also_the_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        log = settings(tmp_path, format="json")
        with errors_as_lines(log.log), run_logged_in_lines(log, APP, "here:9092") as lines:
            lines.write_summary(DONE)
            raise LeaseHeld("bronze is being written\nby another process")

    with pytest.raises(typer.Exit) as end:
        run()
    assert end.value.exit_code == 3
    first, done, error = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["event"], first["topics"], first["tables"]) == ("run", ["readings"], ["newest"])
    assert (done["event"], done["rows"], done["level"]) == ("done", 1_200, "info")
    assert (error["level"], error["message"]) == ("error", "bronze is being written\nby another process")


def test_as_json_what_is_refused_before_the_run_is_an_object_too(
    lakehouse: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_LOG_FORMAT", "json")
    refused = lakehouse("run", "--app", "missing.py")
    (error,) = map(json.loads, refused.err.splitlines())
    assert (refused.code, refused.out, error["level"], error["event"]) == (2, "", "error", "error")
    assert error["message"].startswith("application 'missing.py': no such file")


def test_as_text_an_error_is_told_as_of_any_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LeaseHeld), run_logged_in_lines(settings(tmp_path), APP, "here:9092"):
        raise LeaseHeld("held")
    assert "held" not in capsys.readouterr().err


def test_lines_are_written_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(form: str, *, terminal: bool) -> bool:
        monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
        return shows_lines(form)

    assert [written("auto", terminal=at) for at in (True, False)] == [False, True]
    assert [written(form, terminal=True) for form in ("text", "json")] == [True, True]


@pytest.mark.parametrize(
    ("options", "form", "has_summary"),
    [((), "auto", False), (("--until", "caught-up"), "auto", True), (("--until", "caught-up"), "json", False)],
)
def test_a_job_that_writes_lines_ends_without_a_table(
    lakehouse: Command,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    form: str,
    has_summary: bool,
) -> None:
    declared = (
        'import lakehouse as lh\napp = lh.app(lh.stream("readings", key="id string", schema="n int").latest("newest"))'
    )
    (folder / "app.py").write_text(declared)
    monkeypatch.setenv("LAKEHOUSE_LOG_FORMAT", form)
    monkeypatch.setattr("lakehouse.run.start.cheap_checks.check_before_run", lambda *of: None)
    monkeypatch.setattr("lakehouse.run.start.topics.check_topics", lambda *of: None)
    monkeypatch.setattr("lakehouse.run.start.kafka.open_kafka", lambda of: nullcontext("here:9092"))
    monkeypatch.setattr("lakehouse.cli.start.job.run_until", lambda *of: DONE)
    outcome = lakehouse("run", "--app", "app.py", *options)
    assert (outcome.code, "1,200 records ingested" in outcome.err, "1,200 records ingested" in outcome.out) == (
        0,
        True,
        has_summary,
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"level": "loud"}, "found 'loud'; expected one of: debug, info, warning, error"),
        ({"format": "xml"}, "found 'xml'; expected one of: auto, text, json"),
        ({"lag_seconds": "-1"}, "found -1; expected a number of seconds"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(tmp_path, **setting)
