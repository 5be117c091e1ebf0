"""docs/notebook.ipynb runs from its first cell to its last, and shows tables and pictures. Its outputs are not kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.kernels import lakehouse_command, run_notebook

PROJECT = Path(__file__).parents[2]
NOTEBOOK = PROJECT / "docs" / "notebook.ipynb"


def test_no_output_is_kept() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The notebook was run in an empty folder: the HTML that each cell shows, by the last line of its source."""
    folder = tmp_path_factory.mktemp("notebook")
    process = run_notebook(NOTEBOOK, folder, LAKEHOUSE_SPARK_KEEP="off")
    lakehouse_command(folder, "kafka", "down")
    assert process.returncode == 0, process.stdout + process.stderr
    cells = [cell for cell in json.loads((folder / "run.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    return {"".join(cell["source"]).splitlines()[-1]: html_of(cell["outputs"]) for cell in cells}


def html_of(outputs: list[dict[str, Any]]) -> str:
    return "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)


@pytest.mark.slow
def test_it_shows_tables_and_pictures(shown: dict[str, str]) -> None:
    assert "<svg" in shown["app"]
    assert "TABLE rooms" in shown["lh.describe(rooms)"]
    assert '<progress value="12" max="12">' in shown['lake.run(app, until="caught_up")']
    assert "<td>43.50</td>" in shown["lake.read(rooms)"]
    assert "warm" in shown["""lake.query('SELECT "offset", reason FROM quarantine.readings')"""]
    assert "<table" in shown['lake.changes(rooms).select("room", "readings", "degrees")']
    assert "The table has the same: readings=2, degrees=43.50." in shown['lake.explain(rooms, "attic")']
    assert "ok: each offset is accounted for." in shown["lake.audit(app, rooms)"]
    assert "3 added, 0 removed, 0 changed." in shown['lake.diff(rooms, "tick:0", "now")']  # attic, cellar, bath


@pytest.mark.slow
def test_a_record_that_is_html_is_shown_and_does_nothing(shown: dict[str, str]) -> None:
    seen = "".join(shown.values())
    assert "bath" in seen
    assert "<b onclick" not in seen
