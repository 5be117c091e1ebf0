"""Commands in groups: few names at the top, what is in each group, and the earlier flat names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import lakehouse as package
from lakehouse.cli import main
from lakehouse.cli.groups import ALONE, GROUPS, MOVED

PROJECT = Path(package.__file__).parent.parent
TREE = {
    "kafka": "up down produce consume topics groups acls",
    "registry": "up down",
    "spark": "status stop",
    "schema": "pull check retry",
    "look": "tables describe late quarantine interventions erasures",
    "past": "log changes show diff blame bisect explain checkout rebuild",
    "repair": "backfill revert correct replay restore rehydrate erase upkeep",
    "deploy": "plan stage show promote back discard",
    "test": "run capture check audit backtest expect drill",
    "airflow": "up down status add remove",
}
YOUNG = ("sql", "setup", "infer", "doctor")  # than the groups
FLAT = (
    "up", "down", "status", "produce", "run", "query", "log", "changes", "tables", "describe", "init", "restore",
    "check", "demo", "test", "capture", "late", "plan", "upkeep", "drill", "rehydrate", "quarantine", "show", "diff",
    "bisect", "blame", "correct", "explain", "backfill", "revert", "checkout", "rebuild", "backtest", "interventions",
    "audit",
)  # fmt: skip


def shown(help_page: str) -> list[str]:
    """The names of the commands that a help page lists."""
    panels = help_page[help_page.index("─ Commands ─") :]
    return re.findall(r"^│ ([a-z]+) +\S", panels, re.MULTILINE)


def test_the_top_has_a_dozen_names_and_the_help_lists_their_commands(lakehouse):
    page = lakehouse("--help").out
    assert shown(page) == ["setup", "doctor", "init", "demo", "infer", "plan", "run", "status", "query", "sql", *TREE]
    assert len(shown(page)) <= 20
    assert len(page[page.index("─ Commands ─") : page.rindex("╰")].splitlines()) <= 35
    words = " ".join(page.replace("│", " ").split())
    for names in TREE.values():
        assert ", ".join(names.split()) in words


@pytest.mark.parametrize("group", TREE)
def test_a_group_shows_what_is_in_it(lakehouse, group):
    assert shown(lakehouse(group, "--help").out) == TREE[group].split()
    assert shown(lakehouse(group).out) == TREE[group].split()


def test_every_flat_name_is_in_the_tree_or_an_alias():
    assert {*FLAT, *YOUNG} == {*ALONE, *MOVED, "test"}
    assert {group.name: " ".join(group.commands) for group in GROUPS} == TREE


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_name_is_the_same_command(lakehouse, name):
    assert lakehouse(name, "--help").code == 0
    if name not in MOVED:
        return
    group = MOVED[name]
    top = typer.main.get_group(main.app)
    old, new = top.get_command(None, name), top.commands[group].commands[name]
    assert (old.callback, old.params, old.help) == (new.callback, new.params, new.help)
    assert f"Its name is lakehouse {group} {name} now." in " ".join(lakehouse(name, "--help").out.split())


def test_a_flat_name_has_the_same_result(lakehouse):
    lakehouse("init", "shop")
    for old, new in (
        (("tables", "--json"), ("look", "tables", "--json")),
        (("describe", "nothing"), ("look", "describe", "nothing")),
        (("test", "shop"), ("test", "run", "shop")),
        (("test", "--engine", "model", "shop"), ("test", "run", "--engine", "model", "shop")),
        (("test", "missing"), ("test", "run", "missing")),
    ):
        one, other = lakehouse(*old), lakehouse(*new)
        assert (one.code, one.err) == (other.code, other.err)
        assert re.sub(r"[\d.]+ s", "", one.out) == re.sub(r"[\d.]+ s", "", other.out)
    assert lakehouse("test", "shop").code == 0


def test_scenarios_in_a_folder_whose_name_is_almost_a_command(lakehouse, folder):
    lakehouse("init", "checks")
    assert lakehouse("test", "checks").out.endswith("1 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["backfil", "app.py"], "`lakehouse repair backfill`"),
        (["past", "backfill"], "`lakehouse repair backfill`"),
        (["test", "chek", "app.py"], "`lakehouse test check`"),
        (["airflow", "upp"], "`lakehouse airflow up`"),
        (["quer"], "`lakehouse query`"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_command_and_its_group(lakehouse, line, meant):
    actual = lakehouse(*line)
    assert actual.code == 2
    assert meant in " ".join(actual.err.replace("│", " ").split())


def test_completion_offers_the_groups_and_not_the_aliases(folder):
    def offered(line: str) -> list[str]:
        typed = line.split()
        environ = {"_LAKEHOUSE_COMPLETE": "complete_bash", "COMP_WORDS": line, "PATH": ""}
        words = len(typed) if line.endswith(" ") else len(typed) - 1
        process = subprocess.run(
            [Path(sys.executable).parent / "lakehouse"], env={**environ, "COMP_CWORD": str(words)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return process.stdout.split()

    assert offered("lakehouse ") == [*ALONE, *TREE]
    assert offered("lakehouse past b") == ["blame", "bisect"]
    assert offered("lakehouse repair ba") == ["backfill"]
    assert offered("lakehouse past blame --ke") == ["--key"]


def test_the_page_of_commands_has_each_as_its_help_begins():
    page = (PROJECT / "docs" / "commands.md").read_text()
    for group in GROUPS:
        for name, command in group.commands.items():
            begins = " ".join((command.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
            assert f"| `lakehouse {group.name} {name}` | {begins} |" in page
    assert all(f"| `lakehouse {name}` |" in page for name in ALONE)


def test_docs_and_messages_name_the_commands_by_their_groups():
    """People type the names that a text shows, and so an old name there would keep the aliases alive."""
    old = re.compile(
        rf"lakehouse(?:\s+#?\s*)(?:{'|'.join(MOVED)})\b(?!-)|lakehouse test (?!{'|'.join(TREE['test'].split())})"
    )
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.js", "Makefile", "*.toml"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    here = {str(Path(__file__).relative_to(PROJECT)), "lakehouse/cli/groups.py", "docs/commands.md"}
    for name in sorted({*listed.splitlines()} - here):
        hits = [match[0] for match in old.finditer((PROJECT / name).read_text())]
        assert not hits, f"{name}: {hits}"


def test_help_breaks_its_lines_where_the_terminal_ends_and_not_where_our_sources_do(lakehouse):
    prose = lakehouse("kafka", "produce", "--help").out.split("╭─")[0]
    assert "only value is there, null deletes. TSV: key, value" in " ".join(prose.split())
    assert not re.search(r"only value is\s*\n", prose)
