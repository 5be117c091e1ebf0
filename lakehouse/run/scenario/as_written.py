"""A record that a scenario expects, as it may be written: a line, a bare value, names in any case. ksqlDB's own tests
write them so."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from lakehouse.formats.delimited import delimiter
from lakehouse.formats.encode import encode_value
from lakehouse.formats.epoch import plain_format
from lakehouse.formats.json_text import timestamp_text
from lakehouse.formats.named import plain_names
from lakehouse.plan.app import App
from lakehouse.plan.schema import Column
from lakehouse.plan.table import Sink
from lakehouse.semantics.changelog import Change


def sink_of(app: App, topic: str) -> Sink | None:
    """Return what is published to a topic; None for the changelog of a table."""
    return next((sink for sink in app.sinks if sink.topic == topic), None)


def as_row(sink: Sink | None, names: tuple[str, ...], wanted: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return an expected record with the change's own key or value where it is written as that record is.

    names: of the key's columns, without those of a window. What is written otherwise stays as it is.
    """
    format = "json" if sink is None else plain_format(plain_names(sink.format)[0])[0]
    key_format = "" if sink is None else plain_format(plain_names(sink.key_format)[0])[0]
    row = dict(wanted)
    if change.key is not None and delimiter(key_format) and isinstance(wanted.get("key"), str):
        key = dict(zip(names, change.key, strict=False))
        if _line(key_format, key) == wanted["key"]:
            row["key"] = plain(key if len(key) > 1 else key[names[0]])
    if isinstance(wanted.get("key"), Mapping):
        row["key"] = _named(wanted["key"], names)
        if change.key is None and all(part is None for part in wanted["key"].values()):
            row["key"] = None  # of several columns, all null is a null key
    value = change.value
    if value is None or "value" not in wanted:
        return row
    written = wanted["value"]
    if format == "json_bare" and not (isinstance(written, Mapping) and set(written) == set(value)):
        row["value"] = {next(iter(value)): written}
    elif isinstance(written, Mapping):
        row["value"] = _named(written, value)
    elif format not in ("json", "json_bare") and written is not None:
        by = format if delimiter(format) else "delimited"
        if _line(by, value) == str(written) or (
            format == "kafka" and [str(item) for item in value.values()] == [str(written)]
        ):
            row["value"] = plain(value)
    return row


def _line(format: str, row: Mapping[str, Any]) -> str:
    columns = tuple(Column(name, "string") for name in row)
    return (encode_value(format, columns, dict(row)) or b"").decode()


def _named(written: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Values under the columns' own names, where these are written in another case."""
    known = {name.lower(): name for name in names}
    return {name if name in names else known.get(name.lower(), name): value for name, value in written.items()}


def plain(value: Any) -> Any:
    """Return a row's value in JSON's form, with decimals and doubles left as they are."""
    match value:
        case datetime():
            return timestamp_text(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value
