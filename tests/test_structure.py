"""The code's shape: imports go one way, the exports are what is meant, files have one subject, no forbidden words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakehouse

ROOT = Path(lakehouse.__file__).parent
PROJECT = ROOT.parent

# From the meaning up: a layer imports itself and those to its left.
#   dags ..job names..> spark_jobs -> cli, run -> delta, kafka, formats, ksql -> plan -> semantics -> errors
ALLOWED = {
    "errors": set(),
    "checks": {"errors", "plan"},
    "sections": set(),
    "durable": set(),
    "config": {"errors", "checks", "sections"},
    "semantics": {"errors"},
    "plan": {"errors", "semantics"},
    "formats": {"errors", "semantics", "plan"},
    "kafka": {"errors", "config", "durable", "semantics", "plan", "formats"},
    "delta": {"errors", "config", "durable", "semantics", "plan", "formats", "kafka"},
    "run": {"errors", "config", "durable", "semantics", "plan", "formats", "kafka", "delta"},
    "page": {"errors", "semantics", "plan", "formats", "delta", "run"},
    "airflow": {"errors", "config", "durable", "plan", "kafka"},
    "demo": {"errors", "config", "semantics", "plan", "formats", "kafka", "delta", "run", "lakehouse"},
    "cli": {
        "errors", "config", "semantics", "plan", "formats", "kafka", "delta", "run", "demo", "airflow", "lakehouse",
    },
    "lakehouse": {"plan", "run", "errors"},
    "testing": {"errors", "semantics", "plan", "formats", "run"},
}  # fmt: skip
LINES_MAX = 300


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def layer(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "lakehouse" if parts == ("__init__",) else parts[0]


def imports(path: Path) -> set[str]:
    """The names of the modules that a file imports anywhere in it, but for type hints."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module == "lakehouse" else {node.module}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = layer(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "lakehouse":
            continue
        other = parts[1] if len(parts) > 1 and (parts[1] in ALLOWED) else "lakehouse"
        assert other == own or other in ALLOWED[own], f"{own} imports {name}"


def test_only_delta_imports_pyspark() -> None:
    for path in modules():
        if layer(path) != "delta":
            assert not {name for name in imports(path) if name.split(".")[0] in ("pyspark", "delta", "py4j")}, path


def test_the_package_imports_no_spark() -> None:
    """`import lakehouse` declares; nothing heavy starts."""
    heavy = ("pyspark", "pandas", "pyarrow")
    code = f"import lakehouse.testing, sys; print(sorted(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_exports() -> None:
    assert sorted(lakehouse.__all__) == [
        "Aggregation", "App", "Changes", "Grouped", "Lake", "LakehouseError", "Sink", "Stream", "Table", "aggregate",
        "app", "avg", "collect_list", "collect_set", "count", "count_distinct", "describe", "earliest", "histogram",
        "hopping", "latest", "max", "min", "reduce", "session", "sliding", "stddev", "stream", "sum", "top_k",
        "tumbling",
    ]  # fmt: skip
    for name in lakehouse.__all__:
        assert getattr(lakehouse, name).__doc__, name


@pytest.mark.parametrize("folder", ["lakehouse", "dags", "spark_jobs", "tests", "benchmarks", "infra"])
def test_files_stay_small(folder: str) -> None:
    long = [path for path in sorted((PROJECT / folder).rglob("*.py")) if len(path.read_text().splitlines()) > LINES_MAX]
    assert not long, f"past {LINES_MAX} lines a file has two subjects"


def test_every_module_says_what_it_is() -> None:
    assert not [path for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]


def test_forbidden_words() -> None:
    """No unfinished notes, no machine's folders, no registry's host."""
    words = re.compile(
        r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|/wo" r"rk/|https?://[a-z0-9.-]*(py" r"pi|pythonhosted|mav" r"en)"
    )
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = PROJECT / name
        if path.suffix in (".py", ".md", ".toml", ".sh", ".xml", ".lock", ".txt", "") and path.is_file():
            hits = [line for line in path.read_text(errors="replace").splitlines() if words.search(line)]
            assert not hits or name == "LICENSE", f"{name}: {hits[:3]}"


def test_commands_print_by_one_module_that_escapes_what_a_terminal_obeys() -> None:
    printing = re.compile(r"\b(typer\.(echo|secho)|(?<!_)print)\(|sys\.(stdout|stderr)\.write\(")
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted((ROOT / "cli").glob("*.py"))
        if path.name != "show.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if printing.search(line) and not re.search(r"def |importlib\.metadata\.version|show\.escaped", line)
    ]
    assert found == [], "use show.say, show.table, show.as_json"
