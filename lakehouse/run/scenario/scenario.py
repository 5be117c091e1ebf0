"""Reads, runs and compares scenario files: with this application and this input, exactly this comes out.

An engine is anything that runs an application over records: the model (`lakehouse.model.model`) or Spark. The same file
runs under several batchings, and must give the same results under each of them.

Besides the fields of every scenario (name, app, inputs, outputs, tables, error) these are supported:

    "quarantine": {"stream": [{"offset": 3, "partition": 0, "reason contains": "expected int"}]}
    "null_keys":  {"table": 2}
    "late":       {"table": [{"offset": 5, "partition": 0, "window": {"start": 0, "end": 10, "type": "time"}}]}
    "key_hex", "value_hex" in an input: the bytes themselves, where JSON can't express them
    "statements": ksqlDB's SQL instead of an app, a list of texts; INSERT INTO ... VALUES comes before the inputs
    "properties": settings for the statements, as SET has them

A record that came too late for several windows is listed once for each; without windows (order_by) it names none.
Both lists may have the "topic" of a record, for a table that reads several.

The order of the inputs is the order of the records' positions. In one batch, records of several partitions are ordered
by their order times (the running maximum of the timestamps in each partition), then by topic and partition: where that
is not the listed order, a new batch begins.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.formats.decode import decode_record, find_declared
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import encode_written_key, encode_written_value
from lakehouse.model import model
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.names.record_format import parse_format
from lakehouse.run.scenario.compare import compare, compare_beginnings
from lakehouse.run.scenario.shape import check_shape
from lakehouse.run.start.application import load_app, load_file
from lakehouse.semantics.record import Record
from lakehouse.semantics.time import kafka_time

if TYPE_CHECKING:
    from lakehouse.ksql.script import Script

# How a scenario may name its application.
NAMED = re.compile(r"^[^:]+:[^:]+$|\.(py|sql)$")
CHECKS = ("outputs", "tables", "quarantine", "null_keys", "late")

Batch = Literal["one", "all"] | int


class Engine(Protocol):
    """Runs an application over records; their ticks say which of them arrive in one batch."""

    def __call__(self, app: App, records: list[Record]) -> Result: ...


def on_model(app: App, records: list[Record]) -> Result:
    """Run the model, without Spark and Kafka. Raises NeedsSpark for an expression that only Spark can evaluate."""
    return model.run(app, records, partial(decode_record, find_schemas=find_declared(app.sources)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """The content of a scenario file. `expected` has the names of `CHECKS` that the file has."""

    path: Path
    name: str
    app: str
    inputs: list[dict[str, Any]]
    expected: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    statements: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a file. Raises ConfigError for another file, or one that needs what does not exist yet."""
    try:
        content = json.loads(path.read_text("utf-8-sig"), parse_float=Decimal, object_pairs_hook=_with_distinct_names)
    except (OSError, ValueError, ArithmeticError, RecursionError) as error:
        raise ConfigError(f"{path}: can't be read as a scenario: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a JSON object, found {type(content).__name__}.")
    check_shape(content, str(path))
    statements = content.get("statements", [])
    if not isinstance(statements, list) or not all(isinstance(statement, str) for statement in statements):
        raise ConfigError(f"{path}: statements={statements!r:.80}, expected a list of texts.")
    if not statements and (not isinstance(content.get("app"), str) or not NAMED.search(content["app"])):
        raise ConfigError(f'{path}: app={content.get("app")!r}, expected "app.py:name", "app.sql", or "module:name".')
    expected_results = {name: content[name] for name in CHECKS if name in content}
    has_asserts = any(statement.lstrip().upper().startswith("ASSERT") for statement in statements)
    if not expected_results and not has_asserts and "error" not in content:
        raise ConfigError(f"{path}: checks nothing. Give it {', '.join(CHECKS)} or error.")
    name, inputs = content.get("name", path.stem), content.get("inputs", [])
    if statements and "app" in content:
        raise ConfigError(f"{path}: found app and statements; expected one of them.")
    properties = tuple(
        (str(property_name), _sql_property_text(value))
        for property_name, value in content.get("properties", {}).items()
    )
    return Scenario(
        path,
        name,
        content.get("app", ""),
        inputs,
        expected_results,
        content.get("error"),
        tuple(statements),
        properties,
    )


def _with_distinct_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError for a name that it has twice: one of the two would check nothing."""
    for name, count in Counter(name for name, _ in members).items():
        if count > 1:
            raise ValueError(f"an object has the name {name!r:.80} {count} times; expected each name once")
    return dict(members)


def _sql_property_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_files(*paths: Path) -> list[Path]:
    """Return the scenario files in files and folders, sorted. Raises ConfigError for a path that does not exist.

    In a folder, what is no file is left out: another folder, or a named pipe, for whose writer a read would wait.
    """
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder.")
        files += sorted(_files_below(path)) if path.is_dir() else [path]
    return files


def _files_below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*.json"):
        if path.is_file() or not path.exists():  # a link to nothing is a scenario that can't be read
            yield path


def load_application(scenario: Scenario) -> App:
    """Return the application that a scenario names: a value, or a function that returns one.

    It looks for the module, or the file of Python or SQL, beside the scenario's file first. Raises what the declaration
    raises, and ConfigError when there is no such module or application.
    """
    if scenario.statements:
        script = _declared_script(scenario)
        script.inserted_records()  # refuse a record that does not fit its stream, as a statement
        script.expected_records()
        return script.app()
    module_name, _, name = scenario.app.partition(":")
    if module_name.endswith((".py", ".sql")):
        file = scenario.path.parent / module_name
        return _load_app_file(str(file if file.exists() else module_name), name)
    beside_file = scenario.path.absolute().parent / f"{module_name}.py"
    if not beside_file.exists() and (statements := beside_file.with_suffix(".sql")).exists():
        return _run_statements((statements.read_text("utf-8-sig"),), folder=statements.parent).app()
    try:
        module = _load_module_file(beside_file) if beside_file.exists() else importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"{scenario.path}: app={scenario.app!r}: {error}") from error
    candidate = getattr(module, name, None)
    app = candidate() if callable(candidate) else candidate
    if not isinstance(app, App):
        raise ConfigError(f"{scenario.path}: app={scenario.app!r}: expected an application (lh.app), found {app!r}.")
    return app


@lru_cache(maxsize=1024)
def _load_app_file(file: str, name: str) -> App:
    return load_app(f"{file}:{name}" if name else file)


@lru_cache(maxsize=1024)
def _run_statements(
    statements: tuple[str, ...], properties: tuple[tuple[str, str], ...] = (), *, folder: Path
) -> Script:
    from lakehouse.ksql.script import Script

    script = Script(settings=dict(properties), folder=folder.resolve())
    script.run("\n".join(f"{statement.rstrip().removesuffix(';')}\n;" for statement in statements))
    return script


def _declared_script(scenario: Scenario) -> Script:
    return _run_statements(scenario.statements, scenario.properties, folder=scenario.path.parent)


@lru_cache(maxsize=1024)
def _load_module_file(path: Path) -> ModuleType:
    """Load a module from its file as a run does, once: two folders may have files of the same name."""
    return load_file(str(path), f"application {path.stem!r}")


def parse_batch(text: str) -> Batch:
    """Return a batch mode: "one", "all", or how many records a batch takes. Raises ConfigError for another text."""
    if text in ("one", "all"):
        return "one" if text == "one" else "all"
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f'batch {text!r}: expected "one", "all", or a number of records from 1.')
    return int(text)


def build_records(scenario: Scenario, app: App, batch: Batch = "all") -> list[Record]:
    """Return a scenario's inputs as bronze has them, cut into ticks by `batch`. Raises ConfigError.

    A tick ends earlier where the next record would change places with a record in it.
    """
    inserted = _declared_script(scenario).inserted_records() if scenario.statements else []
    all_inputs = [
        *inserted,
        *(item for item in scenario.inputs if item.get("topic") not in _unread_topics(scenario, app)),
    ]
    encoded_inputs = [_encode_input(scenario, app, number, item) for number, item in enumerate(all_inputs)]
    batch_size = 1 if batch == "one" else max(len(encoded_inputs), 1) if batch == "all" else batch
    offsets: Counter[tuple[str, int]] = Counter()
    highest_times: dict[tuple[str, int], int] = {}
    placed_records: list[Record] = []
    tick, tick_start = 1, 0
    for number, (topic, partition, timestamp, key, value, record_headers) in enumerate(encoded_inputs):
        place = (topic, partition)
        highest_times[place] = kafka_time.order_time(timestamp, highest_times.get(place))
        held_time, time_header = kafka_time.bronze_time(timestamp)
        record = Record(
            topic, f"scenario-{topic}", partition, offsets[place], held_time, key, value,
            tick=tick, order_time=highest_times[place], headers=(*record_headers, *time_header),
        )  # fmt: skip
        if placed_records and (number - tick_start == batch_size or placed_records[-1].position > record.position):
            tick, tick_start = tick + 1, number
            record = replace(record, tick=tick)
        placed_records.append(record)
        offsets[place] += 1
    return placed_records


def _unread_topics(scenario: Scenario, app: App) -> set[str]:
    """Return the topics that statements declare, but no query reads: their records make no difference."""
    declarations = _declared_script(scenario).catalog.entries.values() if scenario.statements else []
    return {source.topic for source in declarations if source.query is None} - set(app.topics)


_Parts = tuple[str, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def _encode_input(scenario: Scenario, app: App, number: int, item: dict[str, Any]) -> _Parts:
    label = f"{scenario.path}: input {number}"
    topic = item.get("topic")
    # Of several sources that read the topic, take one that reads its keys.
    topic_sources = [source for source in app.sources if source.topic == topic]
    topic_sources.sort(key=lambda candidate: parse_format(candidate.key_format).traits.is_absent)
    source = next(iter(topic_sources), None)
    if topic is None or source is None:
        raise ConfigError(f"{label}: topic={topic!r}; the application reads {', '.join(app.topics)}.")
    try:
        headers = tuple(map(_parse_header, item.get("headers", [])))
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{label}: headers={item['headers']!r:.80}, expected a list of pairs, a name and a text or null."
        ) from error
    place = (int(item.get("partition", 0)), int(item.get("timestamp", 0)))
    if place[1] not in kafka_time.INT64:
        raise ConfigError(f"{label}: timestamp={place[1]}; expected milliseconds, a whole number of 64 bits.")
    raw_key, raw_value = item.get("key_hex"), item.get("value_hex")
    try:
        key = (
            encode_written_key(source, item.get("key"), item.get("window"))
            if raw_key is None
            else bytes.fromhex(raw_key)
        )
        value = encode_written_value(source, item.get("value")) if raw_value is None else bytes.fromhex(raw_value)
        return topic, *place, key, value, headers
    except (Unfit, TypeError, ValueError) as error:
        raise ConfigError(f"{label}: can't be encoded: {error}") from error


def _parse_header(header: Any) -> tuple[str, bytes | None]:
    """Return a header, from a pair of texts or in the form of ksqlDB's tests: {"KEY": "a", "VALUE": "base64"}."""
    if isinstance(header, dict):
        value = header.get("VALUE")
        return str(header["KEY"]), None if value is None else base64.b64decode(value)
    name, text = header
    return str(name), None if text is None else str(text).encode()


def check_scenario(scenario: Scenario, engine: Engine, batch: Batch = "all") -> list[str]:
    """Run a scenario and return its failures as texts for a reader; an empty list when it passed.

    Raises ConfigError when the scenario itself can't be used, and whatever the engine raises.
    """
    if scenario.error is not None:
        return _check_refusal(scenario, scenario.error)
    app = load_application(scenario)
    result = engine(app, build_records(scenario, app, batch))
    asserted = _declared_script(scenario).expected_records() if scenario.statements else []
    return [*compare_beginnings(app, result, asserted), *compare(app, result, scenario.expected)]


def _check_refusal(scenario: Scenario, text: str) -> list[str]:
    try:
        load_application(scenario)
    except LakehouseError as error:
        return [] if text in str(error) else [f"refused, but not with {text!r}: {error}"]
    return [f"expected a refusal with {text!r}; the application was accepted"]
