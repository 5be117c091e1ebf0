"""The docs name what exists: files, folders, tests, links between pages, and names said to be in a file."""

from __future__ import annotations

import fnmatch
import importlib
import re
import subprocess
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from lakehouse.settings.checks import CHECKS

PROJECT = Path(__file__).parent.parent
PAGES = [PROJECT / "ARCHITECTURE.md", PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
# What a path in the text may be relative to: `spark/jvm/session/session.py` is lakehouse/spark/jvm/session/session.py.
BASES = ("", "lakehouse/", "lakehouse/semantics/aggregate/")
# A folder below one of these belongs to this project; others belong to a lake or to a reader.
FOLDERS = (
    "airflow", "benchmarks", "cli", "dags", "docs", "examples", "formats", "infra", "kafka", "lake", "lakehouse",
    "model", "page", "plan", "plugins", "run", "semantics", "settings", "spark", "spark_jobs", "tests",
)  # fmt: skip
# Files of a reader's own application; no file here has their names.
READERS = {"test_app.py"}

# Fenced, or indented after an empty line; the lines of a list go on indented, too.
CODE = re.compile(r"```.*?```|(?<=\n\n)(?: {4}[^\n]*\n+)+", re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:\.(?:py|js|json|md|sh|txt|xml|in|lock)|/)")
TEST = re.compile(r"\btest_[a-z0-9_]+(?:\.{3}|\*)?")
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
NAME_IN_FILE = re.compile(r"`([A-Za-z_][\w.]*)` in\s+`([\w/.-]+\.py)`|`([\w/.-]+\.py)` \(`([A-Za-z_][\w.]*)`\)")


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    files = listed.splitlines()
    folders = {f"{folder}/" for file in files for folder in PurePosixPath(file).parents}
    return (*files, *sorted(folders))


@cache
def names_of_tests() -> frozenset[str]:
    """The names of test functions and of the files that hold them."""
    files = [PROJECT / name for name in tracked() if name.startswith("tests/") and name.endswith(".py")]
    functions = {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}
    return frozenset(functions | {file.stem for file in files})


def files_named(path: str) -> list[str]:
    return [file for base in BASES for file in fnmatch.filter(tracked(), base + path)]


def prose(page: Path) -> str:
    return CODE.sub("\n", page.read_text())


def words(page: Path) -> list[str]:
    """Each word that stands in code quotes, and each path that stands in plain text."""
    text = prose(page)
    quoted = [word for span in SPAN.findall(text) for word in span.split()]
    return quoted + [word.rstrip(".,:;)") for word in SPAN.sub(" ", text).split() if "/" in word]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_paths_exist(page: Path) -> None:
    missing = []
    for word in words(page):
        if PATH.fullmatch(word) and word not in READERS:
            ours = word.endswith(".py") or word.split("/")[0] in FOLDERS
            if ours and not files_named(word) and not files_named(f"*/{word}"):
                missing.append(word)
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_tests_exist(page: Path) -> None:
    named = set(TEST.findall(prose(page))) - {PurePosixPath(name).stem for name in READERS}
    missing = [name for name in named if not fnmatch.filter(names_of_tests(), name.replace("...", "*"))]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_names_are_in_the_file_that_the_text_says(page: Path) -> None:
    missing = []
    for before, file, file_first, after in NAME_IN_FILE.findall(prose(page)):
        name, path = (before, file) if file else (after, file_first)
        paths = [PROJECT / actual for actual in files_named(path)]
        if paths and not any(re.search(rf"\b{name.split('.')[-1]}\b", actual.read_text()) for actual in paths):
            missing.append(f"{name} in {path}")
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(prose(page)):
        if "://" in target:
            continue
        there = (page.parent / target).resolve() if target else page
        if not there.exists() or (anchor and anchor[1:] not in anchors(there)):
            broken.append(target + anchor)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_imports_in_examples_work(page: Path) -> None:
    for module, names in re.findall(r"^ *from (lakehouse[\w.]*) import ([\w, ]+)$", page.read_text(), re.MULTILINE):
        package = importlib.import_module(module)
        for name in names.split(","):
            hasattr(package, name.strip()) or importlib.import_module(f"{module}.{name.strip()}")


def test_scenarios_of_the_operators_exist() -> None:
    """In docs/operators.md the last cell of a row has names of scenarios, `*` for several, beside paths of tests."""
    rows = [line for line in (PROJECT / "docs" / "operators.md").read_text().splitlines() if line.startswith("| ")]
    cells = [row.strip("|").split("|")[-1] for row in rows]
    names = [name for cell in cells for name in SPAN.findall(cell) if "/" not in name and re.fullmatch(r"[\w*]+", name)]
    scenarios = {Path(file).stem for file in tracked() if fnmatch.fnmatch(file, "tests/scenarios/*.json")}
    assert len(names) > 50
    assert not [name for name in names if not fnmatch.filter(scenarios, name)]


def test_the_map_has_every_room() -> None:
    """Each folder of lakehouse/ stands in ARCHITECTURE.md's list of rooms, by its last name."""
    rooms = {PurePosixPath(file).parent for file in tracked() if file.startswith("lakehouse/") and file.endswith(".py")}
    listed = set(re.findall(r"(\w+)/", (PROJECT / "ARCHITECTURE.md").read_text().split("The rooms.")[1].split("##")[0]))
    assert not {room.name for room in rooms} - listed


def test_the_table_of_settings_has_each_and_no_other() -> None:
    page = (PROJECT / "docs" / "configuration.md").read_text()
    sections: dict[str, set[str]] = {}
    for section, name in re.findall(r"^\| (?:`\[(\w+)\]` )?\| `(\w+)` \|", page, re.MULTILINE):
        sections.setdefault(section or next(reversed(sections)), set()).add(name)
    assert sections == {section: set(known) for section, known in CHECKS.items()}


def test_rules_that_are_cited_exist() -> None:
    """Code, tests and scenarios cite rules by number; docs/rules.md has each in the first cell of a row."""
    numbered = set(re.findall(r"^\| (\d+) \|", (PROJECT / "docs" / "rules.md").read_text(), re.MULTILINE))
    files = [PROJECT / name for name in tracked() if name.endswith((".py", ".json"))]
    cited = {
        number
        for file in files
        for text in re.findall(r"\brules? \d+(?:(?:,| and) \d+)*", file.read_text())
        for number in re.findall(r"\d+", text)
    }
    assert "14" in cited
    assert not cited - numbered


def test_each_rule_names_scenarios_or_tests_that_check_it() -> None:
    page = (PROJECT / "docs" / "rules.md").read_text()
    scenarios = {file.stem for file in (PROJECT / "tests" / "scenarios").glob("*.json")}
    for number, names in re.findall(r"^\| (\d+) \| .* \| (.*?) \|$", page, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", names):
            is_there = (PROJECT / name).exists() if "/" in name else fnmatch.filter(scenarios, name)
            assert is_there, f"rule {number}: {name}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
