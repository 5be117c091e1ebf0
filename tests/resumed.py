"""Goes on with a run of hours that was ended: files whose tests have all passed on this very tree are not run again.

    pytest --resume=FOLDER      FOLDER/<git's hash of the tree>: a line for each file that has passed

With a blank in place of the "=", pytest takes a folder that exists for one with tests, and does not know the option.

Whole files, since in some of them each test goes on where the one before ended. A tree that differs from its commit has
no hash, so there everything runs.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def tree_hash(project: Path = PROJECT) -> str | None:
    """Return git's hash of the tree; None if something in it is not committed, or if git can't say."""
    try:
        changes = _git(project, "status", "--porcelain")
        return None if changes else _git(project, "rev-parse", "HEAD^{tree}")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(project: Path, *arguments: str) -> str:
    line = ["git", *arguments]
    return subprocess.run(line, cwd=project, capture_output=True, text=True, check=True).stdout.strip()


class Resumed:
    """A pytest plugin, in each process that runs tests: all tests of a file run in one."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self.passed = set(record.read_text().splitlines()) if record.is_file() else set[str]()
        self._left: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out files that have passed."""
        left = [item for item in items if _file_of(item.nodeid) not in self.passed]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left
        self._left = Counter(_file_of(item.nodeid) for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a file after its last test, unless one of them has failed."""
        file = _file_of(report.nodeid)
        if report.failed:
            self._left[file] += 1  # it never comes to an end
        if report.when == "teardown":
            self._left[file] -= 1
            if not self._left[file]:
                self._record.parent.mkdir(parents=True, exist_ok=True)
                with self._record.open("a") as stream:
                    stream.write(f"{file}\n")


def _file_of(node_id: str) -> str:
    return node_id.split("::")[0]


def resumed_plugin(folder: str | None) -> Resumed | None:
    """Return the plugin for --resume; None without it, for a tree without a hash, and where others run the tests."""
    if folder is None or (tree := tree_hash()) is None:
        return None
    return Resumed(Path(folder, tree))


def is_controller(config: pytest.Config) -> bool:
    """Say whether this process only hands tests out to others."""
    return bool(getattr(config.option, "numprocesses", None)) and "PYTEST_XDIST_WORKER" not in os.environ
