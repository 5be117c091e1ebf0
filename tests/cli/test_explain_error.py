"""Each kind of error has its part of docs/errors.md, which a command prints; an error at a terminal names it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse import errors
from lakehouse.cli.terminal.error_pages import PAGES, page_of, whole_page

DOCS = Path(__file__).parent.parent.parent / "docs"


def kinds() -> set[type[errors.LakehouseError]]:
    classes = {value for value in vars(errors).values() if isinstance(value, type)}
    return {value for value in classes if issubclass(value, errors.LakehouseError)} - {errors.LakehouseError}


def test_each_kind_has_its_part_and_the_docs_have_them_all() -> None:
    assert set(PAGES) == kinds()
    assert (DOCS / "errors.md").read_text() == whole_page(), "lakehouse explain-error > docs/errors.md"
    for page in PAGES.values():
        assert page.cases
        assert all((DOCS / name).exists() for name in page.more)


@pytest.mark.parametrize("name", ["DataLoss", "data-loss", "dataloss", "DATA_LOSS"])
def test_a_kind_is_found_in_any_spelling(lakehouse, name):
    result = lakehouse("explain-error", name)
    assert result.code == 0
    assert result.out.startswith("## DataLoss\n")
    assert result.out == page_of("DataLoss")


def test_another_name_is_refused_with_the_nearest(lakehouse):
    result = lakehouse("explain-error", "DataLos")
    assert result.code == 2
    assert "Found no kind of error 'DataLos'. Did you mean DataLoss?" in result.err


@pytest.mark.parametrize("has_terminal", [True, False])
def test_an_error_ends_with_the_line_to_type_at_a_terminal_only(tmp_path: Path, has_terminal: bool) -> None:
    command = [sys.executable, "-m", "lakehouse.cli.main", "status", "--lake", str(tmp_path / "nothing")]
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=follower if has_terminal else subprocess.PIPE)
    os.close(follower)
    if has_terminal:
        text = b""
        while chunk := _read(leader):
            text += chunk
    else:
        assert process.stderr is not None
        text = process.stderr.read()
    os.close(leader)
    assert process.wait(60) == 1
    assert "is no lake" in text.decode()
    assert ("lakehouse explain-error NoLake" in text.decode()) is has_terminal


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""
