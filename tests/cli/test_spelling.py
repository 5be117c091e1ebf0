"""One grammar of command lines: --app names the application, or lakehouse.toml does; earlier spellings go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from lakehouse.cli import main
from lakehouse.cli.groups import ALONE, APPLICATION_FIRST, GROUPS
from lakehouse.cli.spelling import ApplicationFirst

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string")
app = lh.app(orders.latest("last"))
"""
COMMANDS = {command: (name,) for name, command in ALONE.items()} | {
    command: (group.name, name) for group in GROUPS for name, command in group.commands.items()
}
MOVED = [COMMANDS[command] for command in APPLICATION_FIRST]


def command(path: tuple[str, ...]):
    result = typer.main.get_group(main.app)
    for name in path:
        result = result.commands[name]
    return result


def context(of):
    return of.make_context(of.name, [], resilient_parsing=True)


def test_every_command_names_its_application_why_and_plan_in_the_same_way():
    for path in COMMANDS.values():
        params = command(path).params
        options = {name for param in params for name in param.opts}
        assert not options & {"--dry-run", "--reason"} or path in (("look", "quarantine"), ("repair", "replay")), path
        assert "app" not in [param.name for param in params if param.param_type_name == "argument"], path
        if "--app" in options:
            assert not next(param for param in params if "--app" in param.opts).required, path


@pytest.mark.parametrize("path", MOVED, ids=" ".join)
def test_an_application_that_comes_first_is_understood(path):
    of = command(path)
    assert isinstance(of, ApplicationFirst)
    words = [param.name for param in of.params if param.param_type_name == "argument" and param.required]
    for app in ("app.py", "shop", "shop.py:app"):
        if path == ("past", "rebuild") and app == "shop":
            continue  # the name of a new table may come behind a table's
        present = of.respell(context(of), [app, *words])
        assert present == [f"--app={app}", *words]
        assert of.respell(context(of), ["--config", app, app, *words]) == [f"--app={app}", "--config", app, *words]
        assert of.respell(context(of), ["--config=x", "--", app, *words]) == [
            f"--app={app}",
            "--config=x",
            "--",
            *words,
        ]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("repair", "backfill"), ["last", "--app", "app.py", "--plan"]),
        (("repair", "backfill"), ["last", "--why", "app.py"]),
        (("repair", "upkeep"), ["last", "--plan"]),
        (("past", "rebuild"), ["last", "new", "--from", "bronze"]),
        (("run",), ["--until", "caught-up"]),
        (("query",), ["SELECT 1", "--app", "app.py"]),
    ],
)
def test_a_present_line_is_left_as_it_is(path, line):
    of = command(path)
    assert of.respell(context(of), line) == line


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (
            ("repair", "backfill"),
            ["app.py", "last", "--reason", "because"],
            ["--app=app.py", "last", "--why", "because"],
        ),
        (("repair", "revert"), ["last", "--reason=a b"], ["last", "--why=a b"]),
        (("repair", "correct"), ["last", "--dry-run"], ["last", "--plan"]),
        (("repair", "upkeep"), ["--dry-run", "--", "--reason"], ["--plan", "--", "--reason"]),
        (("repair", "replay"), ["orders", "--dry-run", "--reason", "x"], ["orders", "--plan", "--reason", "x"]),
    ],
)
def test_earlier_names_of_options_are_understood(path, old, new):
    of = command(path)
    assert of.respell(context(of), old) == new


@pytest.mark.parametrize("line", [("run", "--help"), ("repair", "backfill", "--help"), ("repair", "upkeep", "--help")])
def test_help_shows_the_present_spelling_alone(lakehouse, line):
    page = lakehouse(*line).out
    assert not re.search(r"--dry-run|--reason|\bAPP TABLE\b", page)
    assert "--app" in page


def test_without_a_name_the_application_of_the_settings_is_meant(lakehouse, folder: Path, monkeypatch):
    (folder / "shop").mkdir()
    (folder / "shop" / "app.py").write_text(APP)
    (folder / "lakehouse.toml").write_text('[lake]\napp = "shop/app.py:app"\n')
    assert lakehouse("plan", "--json").code == 0
    monkeypatch.chdir(folder / "shop")
    assert lakehouse("plan", "--json", "--config", "../lakehouse.toml").code == 0, "its path is that of the settings"


def test_without_any_name_the_message_has_the_real_one(lakehouse, folder: Path):
    (folder / "orders.py").write_text(APP)
    (folder / "helpers.py").write_text("import lakehouse as lh\n")
    for line in (("run",), ("plan",), ("repair", "backfill", "last"), ("past", "explain", "last", "--key", "1")):
        actual = lakehouse(*line)
        assert (actual.code, actual.out) == (2, "")
        assert (
            '--app orders.py, or once for all commands in lakehouse.toml: app = "orders.py" under [lake]' in actual.err
        )
    (folder / "second.py").write_text(APP)
    assert "--app FILE.py" in lakehouse("run").err


def test_a_new_application_is_the_default_of_its_folder(lakehouse, folder: Path, monkeypatch):
    lakehouse("init", "shop")
    monkeypatch.chdir(folder / "shop")
    assert "totals" in lakehouse("plan").out
