"""Control sequences for a terminal are shown, not obeyed: a record's key, value, reason and topic may hold any."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.cli import main as entry
from lakehouse.cli.terminal import show
from lakehouse.run.start.application import load_app
from lakehouse.semantics.record import Record

from ..written_bronze import write_quarantine
from .versioned import VersionedTable, position
from .written import at

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\r\x9b31m\u202ecba\x7f[red]ä😀"
SHOWN = r"a\x1b[2J\x1b]0;title\x07b\r\x9b31m\u202ecba\x7f[red]ä😀"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
APP = 'import lakehouse as lh\norders = lh.stream("o", key="id string", schema="n int", name="orders")\n' + (
    'app = lh.app(orders.latest("newest"))\n'
)


@pytest.fixture
def lake(folder: Path) -> Path:
    """A table with a hostile key and value in two versions, and a quarantine of a hostile record."""
    (folder / "app.py").write_text(APP)
    table = VersionedTable(folder / "lake", "newest", {"id": pa.string(), "v": pa.string()}, ("id",), feed=True)
    for tick in (1, 2):
        row = {"id": HOSTILE, "v": f"{tick}{HOSTILE}", "_event_time": at(0), "_position": position(tick, 0)}
        table.commit(tick, row)
    text = HOSTILE.encode()
    bad = Record("o", "id", 0, 0, 1_700_000_000_000, text, b'{"n": "' + text.replace(b"\x1b", b"\\u001b") + b'"}', 1, 1)
    write_quarantine(folder / "lake", load_app("app.py").sources[0], [bad])
    return folder


COMMANDS = (
    ("query", 'SELECT id, v, v AS "x\x1b[2J" FROM newest'),
    ("query", "SELECT chr(27) || chr(155) || chr(8238) FROM newest", "--json"),
    ("look", "quarantine", "orders"),
    ("look", "quarantine", "orders", "--json"),
    ("past", "changes", "newest"),
    ("past", "changes", "newest", "--net"),
    ("past", "diff", "newest", "1", "now"),
    ("past", "show", "newest", "2"),
    ("past", "blame", "newest", HOSTILE),
    ("past", "blame", "newest", f"{HOSTILE}?"),
    ("query", "SELECT 1 AS \x1b[2J"),
    ("query", f'SELECT * FROM "{HOSTILE}"'),
    ("past", "log", "no\x1b[2Jtable"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda one: " ".join(one[:2]).encode("ascii", "replace").decode())
def test_no_command_passes_on_control_sequences(lake: Path, lakehouse: Any, arguments: tuple[str, ...]) -> None:
    outcome = lakehouse(*arguments)
    assert outcome.out or outcome.err
    assert BAD.search(outcome.out) is None
    assert BAD.search(outcome.err) is None


def test_it_is_shown_escaped_and_json_loses_nothing(lake: Path, lakehouse: Any) -> None:
    shown = lakehouse("query", "SELECT v AS c FROM newest").out
    assert SHOWN in "".join(line.strip("│ ") for line in shown.splitlines())
    assert json.loads(lakehouse("query", "SELECT id FROM newest", "--json").out) == {"id": HOSTILE}


def test_csv_is_as_it_is_for_a_program_and_escaped_on_a_terminal(lake: Path, lakehouse: Any, monkeypatch: Any) -> None:
    assert HOSTILE in lakehouse("query", "SELECT id FROM newest", "--csv").out
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    assert SHOWN in lakehouse("query", "SELECT id FROM newest", "--csv").out


def test_half_a_character_causes_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    show.say("x\ud800y")
    show.print_json({"k": "\ud800\U000e0041"})
    shown, line = capsys.readouterr().out.splitlines()
    assert shown == "x\\ud800y"
    assert json.loads(line) == {"k": "\ud800\U000e0041"}


def test_a_traceback_is_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError(HOSTILE)
    entry.show_trace(ValueError, error, None)
    assert SHOWN in capsys.readouterr().err


def test_a_run_says_which_function_failed_and_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    import lakehouse as lh
    from lakehouse.cli.start.run_app import show_progress
    from lakehouse.run.watch.event import JobEvent

    app = lh.app(lh.stream("o", key="id string", schema="n int").latest("newest"))
    details = {
        "function": "map price",
        "table": "newest",
        "first": f"{HOSTILE}/0/12",
        "error": f"ValueError: {HOSTILE}",
    }
    with show_progress(app, 0) as listen:
        listen(JobEvent("function failed", 3, 1_200, 0.5, details))
        listen(JobEvent("upkeep failed", 3, 0, 0.5, {"message": HOSTILE}))
    said = " ".join(capsys.readouterr().err.split())  # lines are as long as the terminal is wide
    assert (
        f"map price of table newest failed on 1,200 records, the run continues without them; the first, {SHOWN}/0/12: "
        f"ValueError: {SHOWN}"
    ) in said
    assert f"upkeep failed, the run continues: {SHOWN}" in said
