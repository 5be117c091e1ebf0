"""Capture: the records behind one key of a table, from a real bronze, as a scenario file. No Spark is needed.

The scenario expects the model's results for these records alone. So two things differ from the lake:

- Stream time is that of the slice: the records of other keys, which move it in the lake, are missing. So a record that
  was late in the lake may count here, and a window that was closed there may still be open.
- Offsets are renumbered, and records of several partitions are in the order of the slice's own order times.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.errors import NeedsSpark, NotFound
from lakehouse.formats.codec.registered import FindSchemas
from lakehouse.formats.key_text import several_columns_sentence
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import decode_written_key, decode_written_value
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Table
from lakehouse.run.explain.key_records import records_of_key
from lakehouse.run.scenario.as_written import plain_value
from lakehouse.run.scenario.field_names import in_fields
from lakehouse.run.scenario.keys import keys_in, keys_of
from lakehouse.run.scenario.scenario import Scenario, build_records, on_model
from lakehouse.semantics.position import Identity
from lakehouse.semantics.record import Record
from lakehouse.semantics.time import kafka_time


@dataclass(frozen=True, slots=True)
class Capture:
    """A scenario's text, and facts about it.

    taken_count: how many records it has; record_count: how many reach the key. reordered: its records are not in the
    order of their positions.
    """

    text: str
    taken_count: int
    record_count: int
    reordered: bool


def capture(
    layout: Layout,
    app: App,
    app_name: str,
    table: Table,
    key: str,
    limit: int | None = None,
    listen: Callable[[int], None] = lambda records: None,
) -> Capture:
    """Return the bronze records that reach one key of a table as a scenario, with the model's results for them.

    app_name: the application in the scenario, "app.py:name". key: its text, without the window, see
    `lakehouse.formats.key_text`. limit: take only the first records, so many. listen: called with the number of bronze
    records read so far. Raises NotFound if no record reaches the key, NeedsSpark if only Spark could tell.
    """
    if table.stream.reads:
        upstream_names = ", ".join(upstream.name for upstream in table.stream.reads)
        root_names = ", or of ".join(upstream.name for upstream in table.stream.tables if not upstream.stream.reads)
        raise NeedsSpark(
            f"table {table.name!r} reads {upstream_names}: only `lakehouse past explain` can tell which records reach "
            f"a key. Capture a key of {root_names}, which reads only topics."
        )
    if meeting_streams(table.stream):
        raise NeedsSpark(
            f"table {table.name!r} is made from a join of streams: what comes out for a key depends on records of "
            "both, and of other keys, which move its time. `lakehouse past explain` shows the record that each row "
            "came with."
        )
    own_topics = app.own_topics
    key_records = sorted(records_of_key(layout, own_topics, table, key, listen), key=lambda record: record.position)
    if not key_records:
        raise NotFound(
            f"key {key!r} of table {table.name!r}: no record in bronze reaches it. "
            f"{several_columns_sentence(keys_of(table).columns)} `lakehouse query` shows the table's keys."
        )
    captured_records = key_records[:limit]
    ordered_records = _in_batch_order(captured_records)
    schemas = LakeSchemas(layout)
    scenario_inputs = [_to_input(app, record, schemas.find) for record in ordered_records]
    name = f"{table.name} of {key}, captured from {', '.join(table.stream.topics)}"
    scenario = Scenario(Path(table.name), name, app_name, scenario_inputs)
    expected_results = _expected_results(app, table, on_model(app, build_records(scenario, app)))
    scenario_text = _layout_scenario({"name": name, "app": app_name, "inputs": scenario_inputs, **expected_results})
    return Capture(scenario_text, len(captured_records), len(key_records), ordered_records != captured_records)


def _in_batch_order(captured_records: Iterable[Record]) -> list[Record]:
    """Put records in the order that they would have in one batch, in which a scenario must list them."""
    highest_times: dict[tuple[str, int], int] = {}
    placed_records = []
    for number, record in enumerate(captured_records):
        place = (record.topic, record.partition)
        highest_times[place] = kafka_time.order_time(kafka_time.record_time(record), highest_times.get(place))
        placed_records.append((highest_times[place], *place, number, record))
    return [record for *_, record in sorted(placed_records, key=lambda item: item[:-1])]


def _to_input(app: App, record: Record, find_schemas: FindSchemas) -> dict[str, Any]:
    """Return a record as a scenario writes it; in hex if its bytes are not valid in their format."""
    source = next(source for source in app.sources if source.topic == record.topic)
    scenario_input: dict[str, Any] = {"topic": record.topic}
    if record.partition:
        scenario_input["partition"] = record.partition
    try:
        scenario_input["key"] = decode_written_key(source, record.key, find_schemas(source.topic, "key"))
    except Unfit:
        scenario_input["key_hex"] = (record.key or b"").hex()
    try:
        scenario_input["value"] = decode_written_value(source, record.value, find_schemas(source.topic, "value"))
    except Unfit:
        scenario_input["value_hex"] = (record.value or b"").hex()
    scenario_input["timestamp"] = kafka_time.record_time(record)
    time_headers = kafka_time.bronze_time(scenario_input["timestamp"])[1]
    if headers := [pair for pair in record.headers if pair not in time_headers]:
        scenario_input["headers"] = [_write_header(*header) for header in headers]
    return scenario_input


def _expected_results(app: App, table: Table, result: Result) -> dict[str, Any]:
    result, key_names = in_fields(app, result), keys_in(app, table)
    topic = next((sink.topic for sink in app.sinks if sink.source == table), table.name)
    changes = [
        {
            "topic": topic,
            **key_names.key_to_json(change.key),
            "value": plain_value(change.value),
            "timestamp": change.timestamp,
        }
        for change in result.changelogs[table.name]
        if change.key is not None
    ]
    table_rows = [
        {**key_names.key_to_json(key), "value": plain_value(row)} for key, row in result.tables[table.name].items()
    ]
    expected: dict[str, Any] = {"tables": {table.name: table_rows}} | ({"outputs": changes} if changes else {})
    late_records = [
        _place_of(table, late_record.position.topic, late_record.identity)
        | ({"window": key_names.bounds(*late_record.span)} if late_record.span is not None else {})
        for late_record in result.late[table.name]
    ]
    quarantined_records = {
        source.name: [
            {**_place_of(table, record.topic, record.identity), "reason contains": reason}
            for record, reason in result.quarantine[source.name]
        ]
        for source in table.stream.sources
        if result.quarantine[source.name]
    }
    return (
        expected
        | ({"late": {table.name: late_records}} if late_records else {})
        | ({"quarantine": quarantined_records} if quarantined_records else {})
    )


def _place_of(table: Table, topic: str, identity: Identity) -> dict[str, Any]:
    """Return the place of a record, with its topic if the table reads several."""
    topic_part = {"topic": topic} if len(table.stream.topics) > 1 else {}
    return {**topic_part, "partition": identity.partition, "offset": identity.offset}


def _write_header(name: str, value: bytes | None) -> Any:
    """Return a header as a scenario has it: a pair of texts, or in the form of ksqlDB's tests where it is no text."""
    try:
        return [name, None if value is None else value.decode()]
    except UnicodeDecodeError:
        return {"KEY": name, "VALUE": base64.b64encode(value or b"").decode()}


def _layout_scenario(scenario: dict[str, Any]) -> str:
    """Return a scenario's JSON, laid out for a reader: a line for each record."""
    return (
        "{\n"
        + ",\n".join(f"  {write_json(name)}: {_layout_value(value, '  ')}" for name, value in scenario.items())
        + "\n}\n"
    )


def _layout_value(value: Any, indent: str) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"{indent}  {_write_line(item)}" for item in value) + f"\n{indent}]"
    if isinstance(value, dict):
        inner_lines = [
            f"{indent}  {write_json(name)}: {_layout_value(item, indent + '  ')}" for name, item in value.items()
        ]
        return "{\n" + ",\n".join(inner_lines) + f"\n{indent}}}"
    return write_json(value)


def _write_line(value: Any) -> str:
    """Return JSON in one line, with blanks for readability."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write_json(name)}: {_write_line(item)}" for name, item in value.items()) + "}"
    return "[" + ", ".join(map(_write_line, value)) + "]" if isinstance(value, list) else write_json(value)
