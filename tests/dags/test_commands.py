"""The argument lists of commands: as the real command reads them, also of requests that nobody has checked."""

from pathlib import Path
from typing import Any

import pytest
import typer

from lakehouse.cli.main import app
from lakehouse_dags import commands
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
    ],
)
def test_a_request_that_nobody_checked_cannot_put_an_option_into_a_command(command, request_):
    with pytest.raises(BadRequest):
        commands.argv(PYTHON, WHERE, command, request_)


@pytest.mark.parametrize("command", sorted(commands.COMMANDS))
def test_the_real_command_reads_each_argument_list_as_it_is_meant(command):
    request = {
        "table": "totals", "tables": ["totals"], "target": "then", "clock": "tick", "moment": "4", "keep_hours": 200,
        "dry_run": True, "damage": None, "stream": "orders", "contains": "x", "fix": "f", "reason": "--why",
        "key": "4711", "named_by": ["orders.customer"], "value": "--value",
    }  # fmt: skip
    name, positionals, _ = commands.COMMANDS[command](WHERE, request)
    actual: Any = typer.main.get_command(app)
    for word in name.split():
        actual = actual.get_command(actual.make_context(word, [], resilient_parsing=True), word)
    asked = commands.argv(PYTHON, WHERE, command, request)[4 + len(name.split()) :]
    params = actual.make_context(name, asked).params
    read = [
        value for param in actual.params if param.param_type_name == "argument" for value in _list(params[param.name])
    ]
    assert [str(value) for value in read] == list(positionals)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
