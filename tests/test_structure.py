"""The code's shape: imports go one way, the exports are what is meant, files have one subject, no forbidden words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lakehouse
from lakehouse.plan.names.format_traits import TRAITS

ROOT = Path(lakehouse.__file__).parent
PROJECT = ROOT.parent

# From the meaning up: a room imports itself and the rooms before it, but for those that its layer may not know.
#   spark_jobs -> cli -> run -> spark -> lake, kafka, formats -> model -> plan -> semantics -> errors
ROOMS = (
    "errors", "file_faults", "durable", "signals", "phases", "markup", "passed_on",
    "semantics", "semantics/time", "semantics/aggregate", "semantics/operators", "duration",
    "plan/names", "plan/refused", "plan/spark_functions", "plan/written", "plan/avro", "plan/protobuf",
    "plan/registered", "plan/expression", "plan", "plan/databases", "plan/evolution", "plan/lineage",
    "model/function", "model",
    "ksql/syntax", "ksql/function", "ksql/avro", "ksql/expression", "ksql",
    "formats/values", "formats/avro", "formats/protobuf", "formats/codec", "formats", "settings", "setup",
    "process", "kafka/embedded", "kafka", "registry",
    "lake", "lake/control", "lake/erasure", "lake/moment", "lake/record", "lake/row", "spark/cluster",
    "spark/jvm/kept", "spark/jvm", "spark/jvm/tree", "spark/jvm/session", "spark/expression",
    "spark", "spark/bronze", "spark/part", "spark/stream", "spark/fold/forms", "spark/fold", "spark/table",
    "spark/history", "spark/changelog", "spark/silver", "spark/audit",
    "run/start", "run/snapshots", "run/schemas", "run/infer", "run/scenario", "run/explain", "run/audit", "run/watch",
    "run/repair", "run/deploy", "run/job", "run/erase", "run", "run/drill", "run/sql",
    "lakehouse", "testing", "page", "airflow",
    "cli/terminal", "cli/start", "cli/kafka", "cli/schema", "cli/look", "cli/past", "cli/repair", "cli/deploy",
    "cli/test", "cli/serve", "cli/sql", "cli",
)  # fmt: skip
UNKNOWN = {
    "durable": {"errors"},
    "ksql": {"durable"},
    "formats": {"durable", "ksql"},
    "settings": {"semantics", "model", "ksql", "formats", "durable"},
    "setup": {"semantics", "plan", "model", "ksql", "formats", "durable", "settings"},
    "kafka": {"model", "ksql"},
    "registry": {"semantics", "plan", "model", "ksql", "formats"},
    "lake": {"settings", "kafka", "ksql"},
    "spark": {"ksql"},
    "page": {"settings", "kafka", "durable", "spark", "lakehouse", "testing", "model"},
    "airflow": {"semantics", "formats", "lake", "spark", "run", "lakehouse", "testing", "page", "model"},
    "lakehouse": {"settings", "formats", "kafka", "lake", "spark", "model"},
    "testing": {"settings", "kafka", "lake", "spark", "lakehouse"},
    "cli": {"durable", "testing", "page"},
}
# A stream begins with tables, and a table is made of a stream: these name each other's types, in hints alone.
RECURSIVE = tuple(ROOT / f"plan/{name}.py" for name in ("origin", "stream_join", "rows", "alert", "table"))
FILES_MAX = 18
LINES_MAX = 500  # a file has one subject, however long: here somebody looks whether it has two


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "lakehouse" if parts == ("__init__",) else "/".join(parts[:-1]) or parts[0]


def room_of(name: str) -> str:
    """The room of a module, or of what is imported from one, by its dotted name."""
    parts = name.split(".")[1:]
    while parts and "/".join(parts) not in ROOMS:
        parts.pop()
    return "/".join(parts) or "lakehouse"


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's tree, which nobody changes: several tests read all of them."""
    return ast.parse(path.read_text())


def walk(tree: ast.Module, *, hints: bool) -> Iterator[ast.AST]:
    """The nodes of a tree; hints: also those that are there for type hints alone."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.If) and not hints and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
        else:
            left += ast.iter_child_nodes(node)


@cache
def imports(path: Path, *, hints: bool = False) -> frozenset[str]:
    """The names of the modules that a file imports anywhere in it; hints: also those for type hints alone."""
    result: set[str] = set()
    for node in walk(tree_of(path), hints=hints):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            result |= names if node.module == "lakehouse" else {node.module}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            result |= {name.value for name in node.args if isinstance(name, ast.Constant)}
    return frozenset(result)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = room(path)
    assert own in ROOMS, "a room has its place in the order"
    layer = own.split("/")[0]
    for name in imports(path):
        if name.split(".")[0] != "lakehouse":
            continue
        other = room_of(name)
        assert ROOMS.index(other) <= ROOMS.index(own), f"{own} imports {name}"
        assert other.split("/")[0] not in UNKNOWN.get(layer, ()), f"{layer} imports {name}"


def imported_files(path: Path) -> set[Path]:
    """The project's files that a file imports, also for type hints."""
    hints = path not in RECURSIVE
    names = {
        f"{node.module}.{a.name}"
        for part in tree_of(path).body
        if hints or not isinstance(part, ast.If)
        for node in ast.walk(part)
        if isinstance(node, ast.ImportFrom)
        for a in node.names
    }
    places = [PROJECT.joinpath(*name.split(".")) for name in imports(path, hints=hints) | names]
    return {file for place in places if (file := place.with_suffix(".py")).is_file() and ROOT in file.parents}


def test_no_files_import_each_other() -> None:
    """Not through others either: a file can be understood after those that it imports."""
    left = {path: imported_files(path) - {path} for path in modules()}
    while True:
        imported = set().union(*left.values())
        done = [path for path, needed in left.items() if not needed & left.keys() or path not in imported]
        if not done:
            break
        for path in done:
            del left[path]
    assert not left, f"a circle: {sorted(str(path.relative_to(ROOT)) for path in left)}"


def test_only_spark_imports_pyspark() -> None:
    for path in modules():
        if room(path).split("/")[0] != "spark":
            assert not {name for name in imports(path) if name.split(".")[0] in ("pyspark", "delta", "py4j")}, path


def test_only_folds_know_how_a_table_is_folded() -> None:
    """On Spark a fold is one class: other code that names its operator decides a second time how to fold."""
    folds = {"Aggregate", "Latest", "LatestBy", "LatestSent", "RowHistory"}
    for path in (ROOT / "spark").rglob("*.py"):
        imported = [
            node
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.ImportFrom) and node.module == "lakehouse.plan.operator"
        ]
        assert room(path) == "spark/fold" or not folds & {item.name for node in imported for item in node.names}, path


def test_only_tables_know_a_format_by_its_name() -> None:
    """Other code asks for a trait or a codec: then a new format is a line in each table."""
    rooms = ("plan", "model", "ksql", "formats", "spark", "run/scenario", "run/explain", "run/repair", "run/sql")
    names = {kind for name in TRAITS for kind in (name, name.upper())}
    for path in modules():
        if not room(path).startswith(rooms):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare):
                texts = {item.value for item in ast.walk(node) if isinstance(item, ast.Constant)}
                assert not names & texts, f"{path}:{node.lineno}"


def test_java_stays_behind_one_door() -> None:
    """Private parts of Spark, Delta and Py4J stand in `spark/jvm`, each with a way round it (its `capability.py`)."""
    private = re.compile(r"\b(_jvm|_jdf|_jsc|_jc|_jsparkSession|queryExecution|getClass|nameParts)\b")
    for folder in (ROOT, PROJECT / "dags", PROJECT / "plugins", PROJECT / "spark_jobs"):
        for path in folder.rglob("*.py"):
            if (ROOT / "spark/jvm") not in path.parents:
                assert not private.search(path.read_text()), path
                assert not {name for name in imports(path) if name.split(".")[0] == "py4j"}, path


def test_a_room_can_be_looked_over() -> None:
    """A folder with more files has more than one subject."""
    for folder in {path.parent for path in modules()}:
        assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= FILES_MAX, folder


def test_one_noun_a_subject() -> None:
    """A class's name means one thing everywhere."""
    names = Counter(
        node.name
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_package_imports_no_spark() -> None:
    """`import lakehouse` declares; nothing heavy starts."""
    heavy = ("pyspark", "pandas", "pyarrow")
    code = f"import lakehouse.testing, sys; print(sorted(m for m in {heavy} if m in sys.modules))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_exports() -> None:
    assert sorted(lakehouse.__all__) == [
        "Aggregation", "App", "Changes", "FunctionSink", "Grouped", "Lake", "LakehouseError", "Sink", "Stream",
        "StreamRecord", "Table", "aggregate", "app", "avg", "collect_list", "collect_set", "correlation", "count",
        "count_distinct", "debezium", "describe", "earliest", "histogram", "hopping", "latest", "lineage", "max", "min",
        "only", "reduce", "session", "sliding", "snapshots", "stddev", "stream", "sum", "top_k", "tumbling",
        "variance",
    ]  # fmt: skip
    for name in lakehouse.__all__:
        assert getattr(lakehouse, name).__doc__, name


@pytest.mark.parametrize("folder", ["lakehouse", "dags", "spark_jobs", "examples", "tests", "benchmarks", "infra"])
def test_files_stay_small(folder: str) -> None:
    long = [path for path in sorted((PROJECT / folder).rglob("*.py")) if len(path.read_text().splitlines()) > LINES_MAX]
    assert not long, f"past {LINES_MAX} lines: does the file have one subject?"


def test_every_module_says_what_it_is() -> None:
    assert not [path for path in modules() if not ast.get_docstring(tree_of(path))]


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
    actual = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted((ROOT / "cli").rglob("*.py"))
        if path.name != "show.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if printing.search(line) and not re.search(r"def |importlib\.metadata\.version|show\.escaped", line)
    ]
    assert actual == [], "use show.say, show.print_table, show.print_json"
