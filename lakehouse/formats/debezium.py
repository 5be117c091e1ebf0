"""Debezium's change events: the row that a database's table has after a change, or a delete.

| record                                     | its row                                                                |
|--------------------------------------------|------------------------------------------------------------------------|
| op c, u, r (create, update, snapshot)      | `after`                                                                |
| op d; a null value (the tombstone after d) | none: a delete                                                         |
| op t (truncate), m (message), any other    | none, with a reason: the quarantine                                    |
| a value that was not sent (TOAST)          | none, with a reason: the placeholder is no value of the database       |
| a row alone (ExtractNewRecordState)        | with `flattened`: the row; a delete if its field __deleted is true      |

Key and value may have a schema around them, {"schema": ..., "payload": ...}, each record by itself: Kafka Connect's
JsonConverter with schemas.enable. How a value is read is in `lakehouse.formats.values.connect_value`.

Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events, and the pages
of the other connectors.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from lakehouse.formats.codec import Row
from lakehouse.formats.json_codec import JsonCodec
from lakehouse.formats.values.connect_value import (
    DeclaredValues,
    get_member,
    read_fields,
    schema_of_field,
    unwrap,
)
from lakehouse.formats.values.json_text import JsonNumber, Members, parse_object, parse_value, write_parsed
from lakehouse.formats.values.unfit import Unfit, clip_text, decode_utf8
from lakehouse.plan.names.debezium_options import DebeziumOptions, parse_options, placeholder_bytes
from lakehouse.plan.schema import Column

_ROW_AFTER = ("c", "u", "r")
_DELETED = ("true", True)


@dataclass(frozen=True, slots=True)
class DebeziumCodec(JsonCodec):
    """A change event; its key is the row of the primary key. People write the JSON of both."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        schema, payload = unwrap(parse_object(decode_utf8(data)))
        if payload is None:
            return None
        event = _event(self.format.options)
        if not isinstance(payload, Members):
            raise Unfit(f"expected a change event, found {clip_text(write_parsed(payload))}")
        read_row = event.flattened_row if event.options.flattened else event.row
        return read_row(payload, schema, columns)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        schema, payload = unwrap(parse_value(decode_utf8(data)))
        declared = _event(self.format.options).declared
        if payload is None:
            return None
        if isinstance(payload, Members):
            return read_fields(payload, columns, schema, declared)
        if len(columns) > 1:
            names = ", ".join(column.name for column in columns)
            raise Unfit(f"expected an object of {names}, found {clip_text(write_parsed(payload))}")
        schema_around = Members([("fields", [Members([("field", columns[0].name), *schema])])]) if schema else None
        return read_fields(Members([(columns[0].name, payload)]), columns, schema_around, declared)


@dataclass(frozen=True)
class _Event:
    options: DebeziumOptions

    @cached_property
    def declared(self) -> DeclaredValues:
        return DeclaredValues(self.options.decimals, dict(self.options.times))

    @cached_property
    def placeholders(self) -> tuple[Any, ...]:
        """The forms of the placeholder, parsed, by type of column: Debezium's UnchangedToastedPlaceholder."""
        data = placeholder_bytes(self.options.unavailable)
        as_text = data.decode("utf-8", "replace")
        texts = (as_text, base64.b64encode(data).decode(), data.hex(), base64.urlsafe_b64encode(data).decode())
        name_uuid = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
        lists = ([as_text], [texts[1]], [name_uuid], [JsonNumber(str(byte)) for byte in data])
        decimals = [JsonNumber(f"{byte}.0") for byte in data]
        return (*texts, *lists, decimals, Members([(as_text, as_text)]))

    def row(self, envelope: Members, schema: Any, columns: tuple[Column, ...]) -> Row | None:
        parts = dict(envelope)
        operation = parts.get("op")
        if operation == "d":
            return None
        if operation not in _ROW_AFTER:
            raise _unfit_operation(parts)
        after = parts.get("after")
        if not isinstance(after, Members):
            raise _unfit_after(operation, after)
        own_columns = tuple(column for column in columns if column.name not in self.options.meta)
        row = self._sent_row(after, schema_of_field(schema, "after"), own_columns)
        for path in self.options.meta:
            row |= _meta_value(envelope, path, columns)
        return row

    def flattened_row(self, members: Members, schema: Any, columns: tuple[Column, ...]) -> Row | None:
        parts = dict(members)
        if isinstance(parts.get("op"), str) and "source" in parts and ("after" in parts or "before" in parts):
            raise Unfit("expected a row alone, found an envelope with op, source and after: leave out flattened=True")
        if parts.get("__deleted") in _DELETED or parts.get("__op") == "d":
            return None
        if "__op" in parts and parts["__op"] not in _ROW_AFTER:
            raise _unfit_operation({"op": parts["__op"]})
        return self._sent_row(members, schema, columns)

    def _sent_row(self, members: Members, schema: Any, columns: tuple[Column, ...]) -> Row:
        for column in columns:
            if (value := get_member(members, column.name)) is not None and value in self.placeholders:
                raise Unfit(
                    f"field {column.name}: not sent (TOAST): the database's log has no value of a large column that "
                    f"did not change. ALTER TABLE ... REPLICA IDENTITY FULL makes PostgreSQL log it"
                )
        return read_fields(members, columns, schema, self.declared)


@lru_cache(maxsize=64)
def _event(options_text: str) -> _Event:
    return _Event(parse_options(options_text))


def _meta_value(envelope: Members, path: str, columns: tuple[Column, ...]) -> Row:
    """Return the value of the envelope's field at a path, as the row of the columns with the path's name."""
    value: Any = envelope
    *outer_names, name = path.split(".")
    for outer_name in outer_names:
        value = dict(value).get(outer_name) if isinstance(value, Members) else None
    members = Members([(path, dict(value).get(name))]) if isinstance(value, Members) else Members()
    return read_fields(members, tuple(column for column in columns if column.name == path), None, DeclaredValues())


def _unfit_operation(parts: Mapping[str, Any]) -> Unfit:
    operation = parts.get("op")
    if operation == "t":
        return Unfit(
            "op t: the database's table was truncated, all its rows are gone; no key says which. Delete them here too "
            "(docs/databases.md), or leave truncates out of the topic: skipped.operations=t"
        )
    if operation == "m":
        return Unfit("op m: a message in the database's log is no row")
    if operation is None:
        return Unfit(
            "expected Debezium's envelope with op, before, after and source (rows alone: flattened=True), found "
            f"{clip_text(', '.join(parts)) or 'no field'}"
        )
    return Unfit(f"expected op c, u, r, d, t or m, found {clip_text(write_parsed(operation))}")


def _unfit_after(operation: Any, after: Any) -> Unfit:
    if isinstance(after, str):
        return Unfit(
            f"op {operation}: expected an object in after, found a text, as MongoDB's connector writes: let its "
            "ExtractNewDocumentState make rows of documents, and declare flattened=True"
        )
    found_text = "none" if after is None else clip_text(write_parsed(after))
    return Unfit(
        f"op {operation}: expected the whole row in after, found {found_text}. MongoDB: "
        "capture.mode=change_streams_update_full"
    )
