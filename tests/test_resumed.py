"""A run of the whole suite that was ended goes on: only files that passed whole, on this very tree, are left out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.resumed import tree_hash

CONFTEST = """
from tests.resumed import Resumed

def pytest_configure(config):
    config.pluginmanager.register(Resumed(__import__("pathlib").Path("record")))
"""
FILES = {
    "test_a.py": "def test_1(): pass\ndef test_2(): pass\n",
    "test_b.py": "import os\ndef test_1(): assert os.path.exists('mended')\ndef test_2(): pass\n",
    "test_c.py": "import pytest\n@pytest.fixture\ndef late():\n    yield\n    assert False\ndef test_1(late): pass\n",
    "test_d.py": "import pytest\ndef test_1(): pytest.skip('not here')\n",
}


def run(folder: Path) -> str:
    project = Path(__file__).parents[1]
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir", str(folder)]
    environ = {"PYTHONPATH": str(project), "PATH": "/usr/bin:/bin"}
    return subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, check=False).stdout


def test_files_that_passed_are_not_run_again(tmp_path: Path) -> None:
    for name, text in {**FILES, "conftest.py": CONFTEST}.items():
        (tmp_path / name).write_text(text)
    assert "4 passed, 1 skipped, 1 error" in run(tmp_path).replace("1 failed, ", "")
    assert (tmp_path / "record").read_text().split() == ["test_a.py", "test_d.py"]
    (tmp_path / "mended").touch()
    assert "3 passed, 3 deselected, 1 error" in run(tmp_path)
    assert (tmp_path / "record").read_text().split() == ["test_a.py", "test_d.py", "test_b.py"]


def test_the_makefile_begins_and_goes_on(tmp_path: Path) -> None:
    """Pytest reads options before it knows them: a folder that exists must not be taken for one with tests."""
    project = Path(__file__).parents[1]
    (option,) = re.findall(r"--resume[= ](\S+)", (project / "Makefile").read_text())
    assert f"--resume={option}" in (project / "Makefile").read_text()
    for _ in range(2):
        line = [sys.executable, "-m", "pytest", f"--resume={tmp_path}", "--markers"]
        done = subprocess.run(line, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (tmp_path / "record").touch()


def test_only_a_committed_tree_has_a_hash(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert tree_hash(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("one")
    assert tree_hash(tmp_path) is None
    git("add", "file")
    git("commit", "--message", "one")
    first = tree_hash(tmp_path)
    assert first is not None
    (tmp_path / "file").write_text("two")
    assert tree_hash(tmp_path) is None
    git("commit", "--all", "--message", "two")
    assert tree_hash(tmp_path) not in (None, first)
