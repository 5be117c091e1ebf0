"""The argument lists of commands: as the real command reads them, also of requests that nobody has checked."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from lakehouse.cli.main import app
from lakehouse_dags import commands, decisions
from lakehouse_dags.requests import BadRequest

WHERE = {"name": "shop", "app": "/srv/shop/app.py", "config": "/srv/shop/lakehouse.toml", "lake": "/srv/shop/lake"}
PYTHON = Path("/venv/bin/python")


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        ("plan", {"table": "--discard"}),
        ("backfill", {"table": "--app=/tmp/evil.py"}),
        ("backfill", {"table": None}),
        ("backfill", {"table": ""}),
        ("backfill", {"table": "totals\0"}),
        ("backfill", {"table": "totals", "reason": "\ud800"}),
        ("checkout", {"table": "totals", "target": "-x", "clock": "tick", "moment": "1"}),
        ("upkeep", {"tables": ["totals", "--config=/tmp/x.toml"], "keep_hours": 168, "dry_run": False}),
        ("try", {"stream": "--fix=/tmp/evil.py:f", "contains": None, "fix": None}),
        ("promote", {"reason": "x"}),
        ("promote", {"reason": "x", "digest": "0123456789abcdef --app=/tmp/evil.py"}),
        ("replay", {"stream": "orders", "contains": None, "fix": None, "reason": "x", "digest": None}),
    ],
)
def test_a_request_that_nobody_checked_cannot_put_an_option_into_a_command(command, request_):
    with pytest.raises(BadRequest):
        commands.command_argv(PYTHON, WHERE, command, request_)


@pytest.mark.parametrize("command", sorted(commands.COMMANDS))
def test_the_real_command_reads_each_argument_list_as_it_is_meant(command):
    request = {
        "table": "totals", "tables": ["totals"], "target": "then", "clock": "tick", "moment": "4", "keep_hours": 200,
        "dry_run": True, "damage": None, "stream": "orders", "contains": "x", "fix": "f", "reason": "--why",
        "key": "4711", "named_by": ["orders.customer"], "value": "--value", "digest": "7-0123456789abcdef",
    }  # fmt: skip
    name, positionals, _ = commands.COMMANDS[command](WHERE, request)
    actual: Any = typer.main.get_command(app)
    for word in name.split():
        actual = actual.get_command(actual.make_context(word, [], resilient_parsing=True), word)
    asked = commands.command_argv(PYTHON, WHERE, command, request)[4 + len(name.split()) :]
    params = actual.make_context(name, asked).params
    read = [
        value for param in actual.params if param.param_type_name == "argument" for value in _list(params[param.name])
    ]
    assert [str(value) for value in read] == list(positionals)


@pytest.mark.parametrize("command", sorted(commands.COMMANDS))
def test_each_command_works_on_the_lake_that_the_page_shows(command, tmp_path):
    """Whatever the variables of the worker, and the configuration, say."""
    request = {
        "table": "totals", "tables": None, "target": "then", "clock": "tick", "moment": "4", "keep_hours": 200,
        "dry_run": True, "damage": None, "stream": "orders", "contains": None, "fix": None, "reason": "x",
        "key": "4711", "named_by": [], "value": None, "digest": "0123456789abcdef",
    }  # fmt: skip
    for where, config in ((WHERE, ["--config=/srv/shop/lakehouse.toml"]), ({**WHERE, "config": None}, [])):
        asked = commands.command_argv(PYTHON, where, command, request)
        assert [one for one in asked if one.startswith(("--lake", "--config"))] == ["--lake=/srv/shop/lake", *config]


def test_what_is_requested_is_shown_apart_from_what_was_found():
    """A result can be changed in Airflow: a finding must not stand in the place of what is erased."""
    found = {"records": ["orders: 3 records"], "key": "bob", "reason": "harmless", "digest": "0f1e", "event": "done"}
    request = {"stream": "orders", "key": "alice", "dry_run": False, "reason": "ticket 7"}
    text = decisions.describe_decision(request, "plan", found)
    requested, _, findings = text.partition("#### Found by the task plan\n")
    assert requested.splitlines() == [
        "#### Requested, by the params of this run", "", "* stream: **orders**", "* key: **alice**",
        "* reason: **ticket 7**", "",
    ]  # fmt: skip
    assert "* key: **bob**" in findings
    assert "* digest: **0f1e**" in findings, "what the task after the approval may do"
    assert "alice" not in findings


def test_a_person_who_decides_sees_all_of_it():
    """Nothing is cut: what is not shown would be done as well."""
    offsets = ",".join(f"orders/{partition}=1200..1800" for partition in range(90))
    request = {"table": "totals", "from": None, "to": None, "offsets": offsets}
    found = {"tables": [f"table_{number}: 1 row added" for number in range(40)], "digest": "0f1e"}
    text = decisions.describe_decision(request, "plan", found).replace("\\", "")
    assert "orders/89=1200..1800" in text
    assert all(f"    * **table_{number}: 1 row added**" in text for number in range(40))
    text = decisions.describe_decision({**request, "offsets": None}, "plan", found)
    assert "* range: **all rows**" in text


def test_a_log_names_nobody_whose_records_are_erased():
    request = {
        "stream": "orders",
        "key": "4711",
        "named_by": ["visits.who"],
        "value": "Anna",
        "reason": "t",
        "digest": None,
    }
    shown = commands.shown_argv(commands.command_argv(PYTHON, WHERE, "erase", request))
    assert {"--key=***", "--value=***", "--named-by=visits.who"} <= set(shown)
    assert not any("4711" in word or "Anna" in word for word in shown)


def test_a_line_and_an_error_name_nobody_whose_records_are_erased():
    request = {"key": '7,"Anna Berg"', "value": "Zo\u00eb 'Z' M" + "x" * 100}
    for line in (
        "key '7,\"Anna Berg\"': id: expected bigint, found 'Anna Berg'. Expected a bigint.",
        f"found {request['value']!r}", f"found {request['value'][:80]}... (107 characters)", json.dumps(request),
    ):  # fmt: skip
        hidden = commands.hide_personal("erase", request, line)
        assert not re.search(r"Anna|Zo|'7|M", hidden), hidden
    assert commands.hide_personal("erase", {"key": "1", "value": None}, "12 files of tick 1") == "12 files of tick ***"
    assert commands.hide_personal("plan", {"key": "1"}, "tick 1") == "tick 1"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
