"""Reads an expected record of a scenario, however it is written: a line, a bare value, names in any case, as in
ksqlDB's own tests."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from lakehouse.formats.encode import encode_value
from lakehouse.formats.json_text import format_timestamp
from lakehouse.plan.app import App
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.schema import Column
from lakehouse.plan.table import Sink
from lakehouse.semantics.changelog import Change


def sink_of(app: App, topic: str) -> Sink | None:
    """Return the sink that publishes to a topic; None for the changelog of a table."""
    return next((sink for sink in app.sinks if sink.topic == topic), None)


def as_row(sink: Sink | None, names: tuple[str, ...], expected: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return an expected record with the change's own key or value in place of another spelling of them.

    names: of the key's columns, without those of a window. A key or value that differs stays as it is.
    """
    format = parse_format("json" if sink is None else sink.format)
    key_format = parse_format("" if sink is None else sink.key_format)
    row = dict(expected)
    if change.key is not None and key_format.kind == "delimited" and isinstance(expected.get("key"), str):
        key = dict(zip(names, change.key, strict=False))
        if _encode_line(key_format, key) == expected["key"]:
            row["key"] = plain_value(key if len(key) > 1 else key[names[0]])
    if isinstance(expected.get("key"), Mapping):
        row["key"] = _respell_names(expected["key"], names)
        if change.key is None and all(part is None for part in expected["key"].values()):
            row["key"] = None  # of several columns, all null is a null key
    value = change.value
    if value is None or "value" not in expected:
        return row
    expected_value = expected["value"]
    if format.kind == "json_bare" and not (isinstance(expected_value, Mapping) and set(expected_value) == set(value)):
        row["value"] = {next(iter(value)): expected_value}
    elif isinstance(expected_value, Mapping):
        row["value"] = _respell_names(expected_value, value)
    elif not format.is_json and expected_value is not None:
        line_format = format if format.kind == "delimited" else parse_format("delimited")
        if _encode_line(line_format, value) == str(expected_value) or (
            format.kind == "kafka" and [str(item) for item in value.values()] == [str(expected_value)]
        ):
            row["value"] = plain_value(value)
    return row


def _encode_line(format: RecordFormat, row: Mapping[str, Any]) -> str:
    columns = tuple(Column(name, "string") for name in row)
    return (
        encode_value(str(replace(format, is_named=False, has_number_moments=False)), columns, dict(row)) or b""
    ).decode()


def _respell_names(values_by_name: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Return the values under the columns' own names, where a scenario writes these in another case."""
    names_by_lower = {name.lower(): name for name in names}
    return {
        name if name in names else names_by_lower.get(name.lower(), name): value
        for name, value in values_by_name.items()
    }


def plain_value(value: Any) -> Any:
    """Return a row's value in JSON's form, with decimals and doubles left as they are."""
    match value:
        case datetime():
            return format_timestamp(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(name): plain_value(item) for name, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
    return value
