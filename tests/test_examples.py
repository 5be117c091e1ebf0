"""The applications of examples/, each with its own test; those that README and `lakehouse init` show are the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cli.start.template import files_of_app

PROJECT = Path(__file__).parent.parent
EXAMPLES = PROJECT / "examples"


@pytest.mark.parametrize("name", ["alerts", "clickstream", "database", "flights", "house", "shop", "tutorial"])
def test_an_example_passes_its_own_test(name):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"]
    process = subprocess.run(command, cwd=EXAMPLES / name, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert re.search(r"\d passed", process.stdout)


def test_the_house_is_the_one_of_the_readme():
    text = (PROJECT / "README.md").read_text()
    assert f"```python\n{(EXAMPLES / 'house' / 'app.py').read_text()}```" in text
    records = (EXAMPLES / "house" / "readings.jsonl").read_text().splitlines()
    assert "\n".join(f"    {line}" for line in records) in text


def test_the_shop_is_what_init_writes():
    assert {path.name: path.read_text() for path in (EXAMPLES / "shop").iterdir() if path.is_file()} == files_of_app(
        "shop"
    )
