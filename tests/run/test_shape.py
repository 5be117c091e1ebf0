"""A scenario file of another shape is refused with the place and the expected form, and a misspelt field too."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import ConfigError
from lakehouse.run.scenario.scenario import check_scenario, on_model, read_scenario

SCENARIO: dict[str, Any] = {
    "name": "counted",
    "statements": [
        "CREATE STREAM s (id VARCHAR KEY, a INT) WITH (kafka_topic='s', value_format='JSON');",
        "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;",
    ],
    "inputs": [
        {"topic": "s", "key": "k", "value": {"a": 1}, "timestamp": 5},
        {"topic": "s", "key": "k", "value": {"a": "bad"}},
    ],
    "tables": {"T": [{"key": "k", "window": {"start": 0, "end": 1000, "type": "time"}, "value": {"N": 1}}]},
    "outputs": [],
    "quarantine": {"S": [{"offset": 1}]},
}
VALUES: tuple[Any, ...] = (None, 5, "x", True, [5], ["x"], [[]], {"a": 1}, -1, 1.5)
# Any value but one of these is refused.
PLACES: dict[tuple[str | int, ...], tuple[Any, ...]] = {
    ("inputs",): (), ("inputs", 0): (), ("inputs", 0, "topic"): (), ("inputs", 0, "timestamp"): (5, -1),
    ("inputs", 0, "partition"): (5,), ("inputs", 0, "headers"): (), ("tables",): (), ("tables", "T"): (),
    ("tables", "T", 0): (), ("outputs",): (), ("quarantine",): (), ("quarantine", "S"): (), ("late",): (),
    ("late", "T"): (), ("null_keys",): (), ("null_keys", "T"): (5,), ("properties",): (),
    ("error",): ("x",), ("quarantine", "S", 0): (), ("quarantine", "S", 0, "reason contains"): ("x",),
    ("quarantine", "S", 0, "topic"): ("x",),
}  # fmt: skip
OBJECTS = [place for place in PLACES if place[-1] in ("quarantine", "late", "null_keys", "properties")]


def check(folder: Path, content: Any) -> list[str]:
    path = folder / "scenario.json"
    path.write_text(json.dumps(content))
    return check_scenario(read_scenario(path), on_model)


def changed(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    content = copy.deepcopy(SCENARIO)
    inner: Any = content
    for step in place[:-1]:
        inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
    inner[place[-1]] = value
    return content


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (place, value) for place, right in PLACES.items() for value in VALUES
        if not any(value is good or (value == good and type(value) is type(good)) for good in right)
        and not (isinstance(value, dict) and (place in OBJECTS or place == ("tables", "T", 0)) and place != ("tables",))
        and not (place == ("inputs", 0, "topic") and value == "x")
    ],
)  # fmt: skip
def test_another_shape_is_refused_and_never_a_trace(tmp_path: Path, place: tuple[str | int, ...], value: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected|the application reads"):
        check(tmp_path, changed(place, value))


@pytest.mark.parametrize(
    ("place", "near"),
    [
        (("output",), "outputs"), (("table",), "tables"), (("statement",), "statements"), (("null_key",), "null_keys"),
        (("Tables",), "tables"), (("inputs", 0, "timestmp"), "timestamp"), (("inputs", 0, "header"), "headers"),
        (("tables", "T", 0, "windw"), "window"), (("inputs", 0, "value-hex"), "value_hex"),
    ],
)  # fmt: skip
def test_a_misspelt_field_is_refused(tmp_path: Path, place: tuple[str | int, ...], near: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no field '{place[-1]}'. Did you mean '{near}'"):
        check(tmp_path, changed(place, []))


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_part_and_its_bytes_beside_it_are_refused(tmp_path: Path, part: str) -> None:
    content = changed(("inputs", 0, f"{part}_hex"), "00")
    with pytest.raises(ConfigError, match=f"inputs, number 0: found {part} and {part}_hex; expected one of them"):
        check(tmp_path, content)
    content["inputs"][0][f"{part}_hex"] = None  # as if it were not there
    assert check(tmp_path, content) == []


def test_a_name_twice_is_refused_since_one_of_them_would_check_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text('{"app": "app:app", "tables": {"t": [], "t": []}}')
    with pytest.raises(ConfigError, match="an object has the name 't' 2 times; expected each name once"):
        read_scenario(path)


def test_other_fields_are_left_alone(tmp_path: Path) -> None:
    assert check(tmp_path, {**SCENARIO, "comment": "one window", "see": 7}) == []
