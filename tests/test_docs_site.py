"""The docs build as a site without a warning, and its references have every command and every public name."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakehouse
from lakehouse.cli.groups import ALONE, GROUPS

PROJECT = Path(__file__).parent.parent
PACKAGES = PROJECT / ".docs"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert PACKAGES.is_dir(), "run make docs-packages"
    folder = tmp_path_factory.mktemp("docs")
    process = subprocess.run(
        [sys.executable, str(PROJECT / "infra" / "docs" / "build.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": str(PACKAGES)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr == ""
    return folder / "html"


def test_every_page_is_there(site: Path) -> None:
    assert (site / "index.html").is_file()
    for page in (PROJECT / "docs").rglob("*.md"):
        assert (site / page.relative_to(PROJECT).with_suffix(".html")).is_file()


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text()
    assert not [name for name in lakehouse.__all__ if f'id="lakehouse.{name}"' not in page and "Error" not in name]
    for name in (
        "lakehouse.Lake.run",
        "lakehouse.Stream.group_by",
        "lakehouse.Table.filter",
        "lakehouse.testing.Replay",
    ):
        assert f'id="{name}"' in page, name


def test_what_a_lake_returns_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text()
    public = [method for name, method in inspect.getmembers(lakehouse.Lake, inspect.isfunction) if name[0] != "_"]
    named = {name for method in public for name in re.findall(r"[A-Z]\w+", method.__annotations__["return"])}
    assert len(named) > 10
    assert not [
        name
        for name in named - {"None", "DataFrame", "AnyOutcome"}
        if not re.search(rf'id="lakehouse\.[\w.]+\.{name}"', page)
    ]


def test_every_command_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text()
    for name in (*ALONE, *(f"{group.name} {name}" for group in GROUPS for name in group.commands)):
        assert f">lakehouse {name}<" in page, name
