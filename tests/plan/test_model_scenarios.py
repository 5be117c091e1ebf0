"""Every scenario on the model, with the same result under every batching."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.formats.decode import decode_record, find_declared
from lakehouse.model import model
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.run.scenario.scenario import Batch, check_scenario, find_files, read_scenario
from lakehouse.semantics.record import Record

FOLDER = Path(__file__).parents[1] / "scenarios"


def run_model(app: App, records: list[Record]) -> Result:
    find_schemas = find_declared(app.sources)
    return model.run(app, records, lambda source, record: decode_record(source, record, find_schemas))


@pytest.mark.parametrize("batch", ["one", "all", 2])
@pytest.mark.parametrize("path", find_files(FOLDER), ids=lambda path: path.stem)
def test_scenario_on_the_model(path: Path, batch: Batch) -> None:
    failures = check_scenario(read_scenario(path), run_model, batch)
    assert not failures, "\n".join(failures)
