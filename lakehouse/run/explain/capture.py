"""Capture: the records behind one key of a table, from a real bronze, as a scenario file. No Spark is needed.

The scenario expects what the model makes of these records alone. So two things differ from the lake:

- Stream time is that of the slice: other keys' records, which move it in the lake, are missing. So a record that was
  late in the lake may count here, and a window that was closed may still be open.
- Offsets are renumbered, and records of several partitions are in the order of the slice's own order times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.errors import NeedsSpark, NotFound
from lakehouse.formats.json_text import write
from lakehouse.formats.key_text import several
from lakehouse.formats.unfit import Unfit
from lakehouse.formats.written import written_key, written_value
from lakehouse.lake.layout import Layout
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Table
from lakehouse.run.explain.of_key import of_key
from lakehouse.run.scenario.as_written import plain
from lakehouse.run.scenario.field_names import in_fields
from lakehouse.run.scenario.keys import keys_in, keys_of
from lakehouse.run.scenario.scenario import Scenario, on_model, records
from lakehouse.semantics import kafka_time
from lakehouse.semantics.position import Identity
from lakehouse.semantics.record import Record


@dataclass(frozen=True, slots=True)
class Capture:
    """A scenario's text, and facts about it: records taken, records of the key, whether the order differs."""

    text: str
    taken: int
    of: int
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
    """Return the bronze records that reach one key of a table as a scenario, with what the model makes of them.

    app_name: how the scenario names the application, "module:name". key: its text, without the window, see
    `lakehouse.formats.key_text`. limit: how many records at most, the first ones. listen: is told how many records
    of bronze were read. Raises NotFound if no record reaches the key, NeedsSpark if only Spark could tell.
    """
    if table.stream.reads:
        names = ", ".join(upstream.name for upstream in table.stream.reads)
        first = ", or of ".join(upstream.name for upstream in table.stream.tables if not upstream.stream.reads)
        raise NeedsSpark(
            f"table {table.name!r} reads {names}: only `lakehouse past explain` can tell which records reach a key. "
            f"Capture a key of {first}, which reads only topics."
        )
    if meetings(table.stream):
        raise NeedsSpark(
            f"table {table.name!r} is made from a join of streams: what comes out for a key depends on records of "
            "both, and of other keys, which move its time. `lakehouse past explain` shows the record that each row "
            "came with."
        )
    own = {source.topic for source in app.sources if source.own_table}
    found = sorted(of_key(layout, own, table, key, listen), key=lambda record: record.position)
    if not found:
        raise NotFound(
            f"key {key!r} of table {table.name!r}: no record in bronze reaches it. "
            f"{several(keys_of(table).columns)} `lakehouse query` shows the table's keys."
        )
    taken = found[:limit]
    ordered = _in_order(taken)
    inputs = [_input(app, record) for record in ordered]
    name = f"{table.name} of {key}, captured from {', '.join(table.stream.topics)}"
    scenario = Scenario(Path(table.name), name, app_name, inputs)
    expected = _expected(app, table, on_model(app, records(scenario, app)))
    text = _text({"name": name, "app": app_name, "inputs": inputs, **expected})
    return Capture(text, len(taken), len(found), ordered != taken)


def _in_order(taken: Iterable[Record]) -> list[Record]:
    """Put records in the order that they would have in one batch: a scenario must list them so."""
    highest: dict[tuple[str, int], int] = {}
    placed = []
    for number, record in enumerate(taken):
        place = (record.topic, record.partition)
        highest[place] = kafka_time.order_time(kafka_time.of(record), highest.get(place))
        placed.append((highest[place], *place, number, record))
    return [record for *_, record in sorted(placed, key=lambda item: item[:-1])]


def _input(app: App, record: Record) -> dict[str, Any]:
    """A record as a scenario writes it; in hex if its bytes are not valid in their format."""
    source = next(source for source in app.sources if source.topic == record.topic)
    item: dict[str, Any] = {"topic": record.topic}
    if record.partition:
        item["partition"] = record.partition
    try:
        item["key"] = written_key(source, record.key)
    except Unfit:
        item["key_hex"] = (record.key or b"").hex()
    try:
        item["value"] = written_value(source, record.value)
    except Unfit:
        item["value_hex"] = (record.value or b"").hex()
    item["timestamp"] = kafka_time.of(record)
    held = kafka_time.held(item["timestamp"])[1]
    if headers := [pair for pair in record.headers if pair not in held]:
        item["headers"] = [
            [name, None if value is None else value.decode("utf-8", "backslashreplace")] for name, value in headers
        ]
    return item


def _expected(app: App, table: Table, result: Result) -> dict[str, Any]:
    result, keys = in_fields(app, result), keys_in(app, table)
    topic = next((sink.topic for sink in app.sinks if sink.of == table), table.name)
    changes = [
        {"topic": topic, **keys.shown(change.key), "value": plain(change.value), "timestamp": change.timestamp}
        for change in result.changelogs[table.name]
        if change.key is not None
    ]
    rows = [{**keys.shown(key), "value": plain(row)} for key, row in result.tables[table.name].items()]
    expected: dict[str, Any] = {"tables": {table.name: rows}} | ({"outputs": changes} if changes else {})
    late = [
        _place(late.identity) | ({"window": keys.bounds(*late.span)} if late.span is not None else {})
        for late in result.late[table.name]
    ]
    bad = {
        source.name: [
            {**_place(record.identity), "reason contains": reason} for record, reason in result.quarantine[source.name]
        ]
        for source in table.stream.sources
        if result.quarantine[source.name]
    }
    return expected | ({"late": {table.name: late}} if late else {}) | ({"quarantine": bad} if bad else {})


def _place(of: Identity) -> dict[str, Any]:
    return {"partition": of.partition, "offset": of.offset}


def _text(scenario: dict[str, Any]) -> str:
    """A scenario's JSON, laid out for a reader: one record a line."""
    return "{\n" + ",\n".join(f"  {write(name)}: {_layer(value, '  ')}" for name, value in scenario.items()) + "\n}\n"


def _layer(value: Any, indent: str) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"{indent}  {_line(item)}" for item in value) + f"\n{indent}]"
    if isinstance(value, dict):
        inner = [f"{indent}  {write(name)}: {_layer(item, indent + '  ')}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent}}}"
    return write(value)


def _line(value: Any) -> str:
    """JSON in one line, with blanks for readability."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write(name)}: {_line(item)}" for name, item in value.items()) + "}"
    return "[" + ", ".join(map(_line, value)) + "]" if isinstance(value, list) else write(value)
