"""How many of ksqlDB's own test cases pass on the model, and which do not.

    git clone --depth 1 https://github.com/confluentinc/ksql
    FOLDER=ksql/ksqldb-functional-tests/src/test/resources/query-validation-tests
    .venv/bin/python benchmarks/ksqldb_cases.py $FOLDER [--show]

A case counts if it expects outputs, needs no registry (JSON, DELIMITED, KAFKA, NONE), and calls no function that only
ksqlDB's tests have. --show prints the difference of each case that fails, too.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.run.scenario.scenario import check_scenario, on_model, read_scenario

REGISTRY_FORMATS = re.compile(r"AVRO|PROTOBUF|JSON_SR|_SR'", re.IGNORECASE)
TEST_FUNCTIONS = re.compile(
    r"\b(BAD_UDF|TEST_UDF|TEST_UDTF|TEST_UDAF|THROWING_UDTF|TOSTRUCT|WHENCONDITION|WHENRESULT|GENERIC_VAR_ARG|VAR_ARG"
    r"|MID_VAR_ARG|MULTI_ARG|FOUR_ARG|FIVE_ARG|OBJ_COL_ARG)\(",
    re.IGNORECASE,
)
FIELDS = ("statements", "properties", "inputs", "outputs")
NUMBER = re.compile(r'"number:([^"]*)"')  # a number keeps its digits on the way: 10.00 is not 10.0 in a DECIMAL


def read_cases(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the name of each case and its scenario as JSON, one for each format."""
    for file in sorted(folder.glob("*.json")):
        text = re.sub(r"^\s*//.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
        for case in json.loads(text, parse_float=lambda digits: f"number:{digits}")["tests"]:
            if "expectedException" in case or "outputs" not in case or case.get("enabled") is False:
                continue
            for record_format in case.get("format", [""]):
                scenario = fill_in(
                    {"name": case["name"]} | {name: case[name] for name in FIELDS if name in case}, record_format
                )
                statements = " ".join(scenario["statements"])
                if not REGISTRY_FORMATS.search(statements) and not TEST_FUNCTIONS.search(statements):
                    label = f"{file.stem}: {case['name']} {record_format}".strip()
                    yield label, NUMBER.sub(r"\1", json.dumps(scenario))


def fill_in(value: Any, record_format: str) -> Any:
    """Put a format in place of {FORMAT}."""
    match value:
        case str():
            return value.replace("{FORMAT}", record_format)
        case list():
            return [fill_in(item, record_format) for item in value]
        case dict():
            return {name: fill_in(item, record_format) for name, item in value.items()}
    return value


def failures(scenario: str, file: Path) -> list[str]:
    """Return why a scenario fails; an empty list if it passes."""
    file.write_text(scenario, "utf-8")
    try:
        return check_scenario(read_scenario(file), on_model, "one")
    except LakehouseError as error:
        return [str(error)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="query-validation-tests in a clone of confluentinc/ksql")
    parser.add_argument("--show", action="store_true", help="print the differences, too")
    arguments = parser.parse_args()
    total, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for label, scenario in read_cases(arguments.folder):
            total += 1
            if reasons := failures(scenario, Path(folder, "case.json")):
                failed += 1
                print(label, *(reasons if arguments.show else ()), sep="\n  ")
    print(f"{total - failed:,} of {total:,} pass: {1 - failed / max(total, 1):.1%}")


if __name__ == "__main__":
    main()
