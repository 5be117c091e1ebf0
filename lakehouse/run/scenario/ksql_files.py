"""A test in ksqlDB's own three files: statements, inputs, expected outputs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, reason_of_error
from lakehouse.run.scenario.scenario import Scenario
from lakehouse.run.start.application import statements_in


def scenario_of(statements: Path, inputs: Path, outputs: Path) -> Scenario:
    """Return the scenario in statements.sql, input.json ({"inputs": [...]}) and output.json ({"outputs": [...]}).

    Raises ConfigError for a file that can't be read, or has other content.
    """
    text = statements_in(statements)
    expected = {"outputs": _read_records(outputs, "outputs")}
    return Scenario(statements, statements.stem, "", _read_records(inputs, "inputs"), expected, statements=(text,))


def _read_records(file: Path, name: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(file.read_text("utf-8"), parse_float=Decimal)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file}: can't be read: {reason_of_error(error)}. Expected a JSON object with {name}."
        ) from error
    records = content.get(name) if isinstance(content, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) and "topic" in record for record in records):
        raise ConfigError(f'{file}: expected {{"{name}": [{{"topic": ..., "key": ..., "value": ...}}, ...]}}.')
    return records
