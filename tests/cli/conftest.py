"""Fixtures of the command's tests: a current folder, and the command as a function."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakehouse.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """The result of a command line."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of its own, without settings from outside."""
    for name in list(os.environ):
        if name.startswith("LAKEHOUSE_") and name != "LAKEHOUSE_JARS":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lakehouse(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line in this process, in a folder of its own."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
