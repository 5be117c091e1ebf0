"""The Python in the docs: declarations can be declared, calls of a lake are calls that it takes, output is as shown.

Those of alerts.md, flights-joined.md and tables-from-tables.md: tests/plan/test_lineage.py. The README's application
is examples/house: tests/test_examples.py. That of avro.md, which needs its pinned schemas: tests/cli/test_docs_run.py.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import sys
import textwrap
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.cli.start.template import files_of_app

PROJECT = Path(__file__).parent.parent
ELSEWHERE = ("alerts", "avro", "flights-joined", "tables-from-tables")
PAGES = [page for page in sorted((PROJECT / "docs").glob("*.md")) if page.stem not in ELSEWHERE]
RUNNING = {"lake", "Lake", "layout", "plan", "replay", "Replay", "DeltaTable", "before", "frame"}
FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)((?: {4}[^\n]*\n+)+)")


def shop() -> dict[str, Any]:
    """What a page takes as declared: the shop of `lakehouse init`, and streams that other pages declare."""
    names: dict[str, Any] = {}
    exec(files_of_app("shop")["app.py"], names)
    last = names["orders"].latest("last_order")
    schema = "zone int, version int, changed_at timestamp, customer string, amount int"
    orders = lh.stream("orders", key="id string", schema=schema)
    readings = lh.stream("readings", key="sensor string", schema="room string, celsius double")
    flights = lh.stream("flights", key="id string", schema="origin string, dep_time timestamp", event_time="dep_time")
    return names | {"lh": lh, "last": last, "orders": orders, "readings": readings, "flights": flights}


def blocks(page: Path) -> Iterator[ast.Module]:
    """The blocks of a page that are Python over lakehouse."""
    text = page.read_text()
    for block in [*FENCED.findall(text), *map(textwrap.dedent, INDENTED.findall(FENCED.sub("", text)))]:
        with contextlib.suppress(SyntaxError):
            tree = ast.parse(block)
            if any(isinstance(node, ast.Attribute) for node in ast.walk(tree)) and not is_toml(block):
                yield tree


def is_toml(block: str) -> bool:
    """Whether a block is a settings file: `[lake.options]` is Python, too."""
    try:
        return bool(tomllib.loads(block))
    except tomllib.TOMLDecodeError:
        return False


def of_a_lake(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "lake"


def declares(statement: ast.stmt) -> bool:
    """Whether a statement needs no lake, no records, and no module of the reader's own."""
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
    if isinstance(statement, ast.ImportFrom):
        return statement.module != "app"
    return isinstance(statement, ast.Assign | ast.Expr | ast.Import | ast.FunctionDef) and not names & RUNNING


def check_calls(tree: ast.AST) -> int:
    """Hold each call `lake.name(...)` against the method's parameters; return how many there are."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and of_a_lake(node.func)]
    for call in calls:
        method = getattr(lh.Lake, call.func.attr)
        inspect.signature(method).bind(None, *call.args, **{word.arg: None for word in call.keywords})
    return len(calls)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_declarations_can_be_declared(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/orders-value.proto").write_text('syntax = "proto3"; message Order { string city = 1; }')
    names = shop()
    for tree in blocks(page):
        check_calls(tree)
        for statement in filter(declares, tree.body):
            exec(compile(ast.Module([statement], []), page.name, "exec"), names)


def test_what_is_wrong_in_a_page_is_found() -> None:
    assert sum(check_calls(tree) for page in PAGES for tree in blocks(page)) > 15
    with pytest.raises(TypeError, match="dry_rum"):
        check_calls(ast.parse("lake.backfill(app, totals, dry_rum=True)"))


def test_the_windows_of_the_page_show_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (PROJECT / "docs" / "windows.md").read_text()
    declared, tried = (block for block in FENCED.findall(page) if re.match(r"# (app|try)\.py", block))
    module = types.ModuleType("app")
    exec(declared, module.__dict__)
    monkeypatch.setitem(sys.modules, "app", module)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(tried, {})
    assert textwrap.indent(shown.getvalue(), "    ") in page.split("$ python try.py\n")[1]
