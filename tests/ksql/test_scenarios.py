"""Every scenario of SQL on the model, with the same result under every batching."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.run.scenario.scenario import Batch, check_scenario, find_files, on_model, read_scenario

FOLDER = Path(__file__).parent / "scenarios"


@pytest.mark.parametrize("batch", ["one", "all", 2])
@pytest.mark.parametrize("path", find_files(FOLDER), ids=lambda path: path.stem)
def test_scenario_on_the_model(path: Path, batch: Batch) -> None:
    failures = check_scenario(read_scenario(path), on_model, batch)
    assert not failures, "\n".join(failures)
