"""The decisions: each has a page with the same sections, and is cited by the name of its page, never by a number."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
FOLDER = PROJECT / "docs" / "decisions"
INDEX = FOLDER / "README.md"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)
ARCHITECTURE = PROJECT / "ARCHITECTURE.md"
SECTIONS = ["State", "Context", "Decision", "Not taken", "Evidence"]
ARCHITECTURE_BYTES_MAX = 15_000
NUMBERS = 151  # how many decisions the numbered list had, until 2026-11-25
BINARY = {".png", ".svg", ".ico", ".parquet", ".gz", ".woff2"}

CITED = re.compile(r"decisions/([\w-]+)\.md")
# "decision 12", "decisions (3)", "ARCHITECTURE.md, 12", also where a line or a comment breaks in between.
BY_NUMBER = re.compile(r"\bdecisions?\s[\s#(*]*\d+\b|ARCHITECTURE\.md[\s#,(:*]+(?:decisions?\s+)?\d+", re.IGNORECASE)
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)


@cache
def texts() -> dict[Path, str]:
    """The text of each file that git knows, or would take; not of this one, whose examples are citations by number."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    paths = [PROJECT / name for name in listed if Path(name).suffix not in BINARY and "vendor" not in Path(name).parts]
    return {path: path.read_text(errors="replace") for path in paths if path.is_file() and path != Path(__file__)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_sections(page: Path) -> None:
    text = page.read_text()
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)+", page.stem), "the name says what was decided, in kebab-case"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    title, *parts = re.split(r"^## .+$", text, flags=re.MULTILINE)
    assert re.fullmatch(r"# \S.*\n\n", title)
    assert all(part.strip() for part in parts), "no section is empty"
    assert re.match(r"(?:Accepted|Replaced) \d{4}-\d\d-\d\d", parts[0].strip())


@pytest.mark.parametrize("listing", [INDEX, ARCHITECTURE], ids=lambda page: page.name)
def test_every_page_is_listed(listing: Path) -> None:
    named = set(re.findall(r"\((?:docs/decisions/)?([\w-]+)\.md\)", listing.read_text()))
    assert not [page.stem for page in PAGES if page.stem not in named]


def test_a_citation_names_a_page() -> None:
    cited = {(path, name) for path, text in texts().items() for name in CITED.findall(text)}
    assert len({path for path, _ in cited}) > 5
    assert not [(str(path), name) for path, name in cited if not (FOLDER / f"{name}.md").is_file()]


def test_no_citation_by_number_is_left() -> None:
    left = [
        (str(path), actual) for path, text in texts().items() if path != INDEX for actual in BY_NUMBER.findall(text)
    ]
    assert not left


@pytest.mark.parametrize(
    "text", ["(decision 100)", "decisions 1 to 3", "before decision\n# 138", "ARCHITECTURE.md, 48"]
)
def test_a_citation_by_number_is_recognised(text: str) -> None:
    assert BY_NUMBER.search(text)


def test_the_index_leads_from_every_old_number_to_a_page() -> None:
    rows = ROW.findall(INDEX.read_text())
    assert [int(number) for number, _ in rows] == list(range(1, NUMBERS + 1))
    names = {number: re.findall(r"\]\(([\w-]+)\.md\)", cell) for number, cell in rows}
    assert all(names.values())
    assert {name for cell in names.values() for name in cell} <= {page.stem for page in PAGES}


def test_the_map_is_short() -> None:
    assert len(ARCHITECTURE.read_bytes()) <= ARCHITECTURE_BYTES_MAX
