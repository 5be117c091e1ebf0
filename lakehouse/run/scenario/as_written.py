"""Reads an expected record of a scenario, however it is written: a line, a bare value, names in any case, as in
ksqlDB's own tests."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.values.json_text import format_timestamp
from lakehouse.plan.app import App
from lakehouse.plan.names.record_format import USUAL_FORMATS
from lakehouse.plan.table import Sink
from lakehouse.semantics.changelog import Change


def sink_of_topic(app: App, topic: str) -> Sink | None:
    """Return the sink that publishes to a topic; None for the changelog of a table."""
    return next((sink for sink in app.sinks if sink.topic == topic), None)


def as_row(sink: Sink | None, names: tuple[str, ...], expected: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return an expected record with the change's own key or value in place of another spelling of them.

    names: of the key's columns, without those of a window. A key or value that differs stays as it is.
    """
    value_format, key_format = USUAL_FORMATS if sink is None else (sink.format, sink.key_format)
    row = dict(expected)
    if change.key is not None and key_format and isinstance(expected.get("key"), str):
        key = dict(zip(names, change.key, strict=False))
        if expected["key"] in codec_of(key_format).line_spellings(key):
            row["key"] = plain_value(key if len(key) > 1 else key[names[0]])
    if isinstance(expected.get("key"), Mapping):
        row["key"] = _respell_names(expected["key"], names)
        if change.key is None and all(part is None for part in expected["key"].values()):
            row["key"] = None  # of several columns, all null is a null key
    value = change.value
    if value is None or "value" not in expected:
        return row
    expected_value = expected["value"]
    codec = codec_of(value_format)
    is_bare = codec.format.traits.is_bare
    if is_bare and not (isinstance(expected_value, Mapping) and set(expected_value) == set(value)):
        row["value"] = {next(iter(value)): expected_value}
    elif isinstance(expected_value, Mapping):
        row["value"] = _respell_names(expected_value, value)
    elif expected_value is not None and str(expected_value) in codec.line_spellings(value):
        row["value"] = plain_value(value)
    return row


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
