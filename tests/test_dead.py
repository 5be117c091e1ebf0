"""Nothing in the package is there for tests alone: product code reaches every function and class of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lakehouse

ROOT = Path(lakehouse.__file__).parent
PROJECT = ROOT.parent
FOLDERS = ("lakehouse", "spark_jobs", "dags", "plugins")
ALLOWED = {
    "lakehouse.testing.Replay": "what people test their applications with",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


def definitions(tree: ast.Module) -> list[Definition]:
    """The functions and classes of a module, without those that a decorator registers elsewhere."""
    result = [node for node in tree.body if isinstance(node, Definition)]
    given = ("register", "callback")
    return [node for node in result if not any(word in ast.dump(ast.Tuple(node.decorator_list)) for word in given)]


def reached(name: str, tree: ast.Module) -> Iterator[str]:
    """The dotted names that a module reaches: by an import, by a module's attribute, its own, or in a text."""
    nodes = [(statement, node) for statement in tree.body for node in ast.walk(statement)]
    imported = [node for _, node in nodes if isinstance(node, ast.ImportFrom)]
    modules = {item.asname or item.name: f"{node.module}.{item.name}" for node in imported for item in node.names}
    yield from modules.values()
    for statement, node in nodes:
        if isinstance(node, ast.Name):
            if not (isinstance(statement, Definition) and statement.name == node.id):
                yield f"{name}.{node.id}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield f"{modules[node.value.id]}.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and name.startswith("lakehouse_page"):
            yield f"lakehouse.page.{node.value}"


def test_nothing_is_there_for_tests_alone() -> None:
    modules = {
        name_of(path): ast.parse(path.read_text()) for folder in FOLDERS for path in (PROJECT / folder).rglob("*.py")
    }
    used = {item for name, tree in modules.items() for item in reached(name.removeprefix("plugins."), tree)}
    dead = [
        dotted
        for name, tree in modules.items()
        if name.startswith("lakehouse.")
        for node in definitions(tree)
        if (dotted := f"{name}.{node.name}") not in used | ALLOWED.keys()
    ]
    assert dead == []
