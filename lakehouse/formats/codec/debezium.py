"""Debezium's change events: the row that a database's table has after a change, or a delete.

| record                                     | its row                                                                |
|--------------------------------------------|------------------------------------------------------------------------|
| op c, u, r (create, update, snapshot)      | `after`                                                                |
| op d; a null value (the tombstone after d) | none: a delete                                                         |
| op t (truncate), m (message), any other    | none, with a reason: the quarantine; or, of t, a delete of all rows    |
|                                            | (`lakehouse.semantics.operators.truncate`)                             |
| a value that was not sent (TOAST)          | none, with a reason: the placeholder is no value of the database; or,  |
|                                            | of an update, null, and named among those that were not sent:          |
|                                            | `Stream.latest`                                                        |
| a document as a text (MongoDB)             | with `documents`: its fields, as in `values.extended_json`             |
| a row alone (ExtractNewRecordState)        | with `flattened`: the row; a delete if its field __deleted is true      |

Key and value may have a schema around them, {"schema": ..., "payload": ...}, each record by itself: Kafka Connect's
JsonConverter with schemas.enable. How a value is read is in `lakehouse.formats.values.connect_value`.

Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events, and the pages
of the other connectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from lakehouse.formats.codec.codec import Row
from lakehouse.formats.codec.json_codec import ConnectJsonCodec, names_of_members
from lakehouse.formats.values.connect_record import RecordSchema, read_record
from lakehouse.formats.values.connect_value import DeclaredValues, FieldSchemas, read_fields, read_row, split_payload
from lakehouse.formats.values.extended_json import plain_json
from lakehouse.formats.values.json_text import (
    JsonNumber,
    Members,
    parse_object,
    parse_value,
    write_parsed,
)
from lakehouse.formats.values.unfit import Unfit, clip_text, decode_utf8
from lakehouse.formats.values.unsent import placeholder_lists, placeholder_texts
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.debezium_options import UNSENT_COLUMN, DebeziumOptions, parse_options

ROW_AFTER, DELETE, TRUNCATE = ("c", "u", "r"), "d", "t"
COMMITTED = Column("source.ts_ms", "bigint")
DELETED_MARK, OPERATION_MARK = "__deleted", "__op"  # the fields of a flattened row that say what became of it
DELETED = ("true", True)
NOT_SENT = (
    "not sent (TOAST): the database's log has no value of a large column that did not change. latest(...) directly "
    "over the stream, without order_by, keeps the value before; for others, ALTER TABLE ... REPLICA IDENTITY FULL "
    "makes PostgreSQL log it"
)
NOT_SENT_WITH_A_NEW_ROW = (
    "not sent (TOAST) with a new row: an update changed the row's primary key, and the database's log has the large "
    "value under the old key alone. ALTER TABLE ... REPLICA IDENTITY FULL makes PostgreSQL log it"
)
ENVELOPE_FOUND = "expected a row alone, found an envelope with op, source and after: leave out flattened=True"
NEW_ROW = ("c", "r")  # there is no row whose value such an event could keep
_NOTHING_DECLARED = DeclaredValues()
_UNIT_OF_ENDING = {"ms": "millis", "us": "micros", "ns": "nanos"}


@dataclass(frozen=True, slots=True)
class DebeziumCodec(ConnectJsonCodec):
    """A change event; its key is the row of the primary key. People write the JSON of both."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        schema, payload = read_record(decode_utf8(data), parse_object)
        if payload is None:
            return None
        event = _event_of_options(self.format.options)
        if not isinstance(payload, Members):
            raise Unfit(f"expected a change event, found {clip_text(write_parsed(payload))}")
        read_row = event.flattened_row if event.options.flattened else event.row
        return read_row(payload, schema, columns)

    def field_names(self, data: bytes) -> tuple[str, ...]:
        """Return the names of the row's fields: the envelope's own are for those who ask for them."""
        with suppress(Unfit):
            envelope, options = _read_envelope(data), parse_options(self.format.options)
            if options.flattened:
                return tuple(name for name in names_of_members(envelope) if not name.startswith("__"))
            after = dict(envelope).get("after")
            return names_of_members(_document(after) if options.documents else after)
        return ()

    def deleted_ms(self, data: bytes) -> int | None:
        with suppress(Unfit):
            envelope = _read_envelope(data)
            if dict(envelope).get("op") in (DELETE, TRUNCATE):
                members = Members([(COMMITTED.name, _member_at(envelope, COMMITTED.name))])
                time: int | None = read_fields(members, (COMMITTED,), None, _NOTHING_DECLARED)[COMMITTED.name]
                return time
        return None

    def is_truncate(self, data: bytes) -> bool:
        with suppress(Unfit):
            return dict(_read_envelope(data)).get("op") == TRUNCATE
        return False

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        schema, payload = split_payload(parse_value(decode_utf8(data)))
        if payload is None:
            return None
        event = _event_of_options(self.format.options)
        declared = event.declared
        if isinstance(payload, Members) and event.options.documents:
            payload = Members((name, _document(value)) for name, value in payload)
        return read_row(payload, columns, schema, declared)


def _read_envelope(data: bytes) -> Members:
    """Return the members of an envelope, none for a null or what is no object. Raises Unfit."""
    _, payload = read_record(decode_utf8(data), parse_object)
    return payload if isinstance(payload, Members) else Members()


@dataclass(frozen=True)
class _Event:
    options: DebeziumOptions

    @cached_property
    def declared(self) -> DeclaredValues:
        return DeclaredValues(self.options.decimals, dict(self.options.times))

    def row(self, envelope: Members, schema: RecordSchema, columns: tuple[Column, ...]) -> Row | None:
        parts = dict(envelope)
        operation = parts.get("op")
        if operation == DELETE or (operation == TRUNCATE and self.options.applies_truncates):
            return None
        if operation not in ROW_AFTER:
            raise unfit_operation(parts)
        after = _document(parts.get("after")) if self.options.documents else parts.get("after")
        if not isinstance(after, Members):
            raise unfit_after(operation, after)
        own_columns, meta_columns = split_columns(columns, self.options.meta)
        row = self._sent_row(after, schema.after_schemas, own_columns, operation)
        meta_members = Members((column.name, _member_at(envelope, column.name)) for column in meta_columns)
        return row | read_fields(meta_members, meta_columns, None, DeclaredValues(units=meta_units(meta_columns)))

    def flattened_row(self, members: Members, schema: RecordSchema, columns: tuple[Column, ...]) -> Row | None:
        parts = dict(members)
        if isinstance(parts.get("op"), str) and "source" in parts and ("after" in parts or "before" in parts):
            raise Unfit(ENVELOPE_FOUND)
        operation = parts.get(OPERATION_MARK)
        if parts.get(DELETED_MARK) in DELETED or operation == DELETE:
            return None
        if OPERATION_MARK in parts and operation not in ROW_AFTER:
            raise unfit_operation({"op": operation})
        return self._sent_row(members, schema.row_schemas, columns, operation)

    def _sent_row(
        self, members: Members, field_schemas: FieldSchemas | None, columns: tuple[Column, ...], operation: Any
    ) -> Row:
        if not self.options.marks_unsent:
            return read_fields(members, columns, field_schemas, self.declared, self._require_sent)
        unsent: list[str] = []

        def was_sent(name: str, value: Any) -> bool:
            if self._is_placeholder(value):
                if operation in NEW_ROW:
                    raise Unfit(NOT_SENT_WITH_A_NEW_ROW)
                unsent.append(name)
                return False
            return True

        row_columns = without_marks(columns)
        return read_fields(members, row_columns, field_schemas, self.declared, was_sent) | {UNSENT_COLUMN: unsent}

    def _require_sent(self, name: str, value: Any) -> bool:
        if self._is_placeholder(value):
            raise Unfit(NOT_SENT)
        return True

    def _is_placeholder(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in placeholder_texts(self.options.unavailable) and not isinstance(value, JsonNumber)
        return isinstance(value, list | Members) and value in placeholder_lists(self.options.unavailable)


@lru_cache(maxsize=256)
def split_columns(columns: tuple[Column, ...], meta: tuple[str, ...]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    return tuple(c for c in columns if c.name not in meta), tuple(c for c in columns if c.name in meta)


@lru_cache(maxsize=256)
def meta_units(meta_columns: tuple[Column, ...]) -> dict[str, str]:
    """Return the units of the envelope's own moments by their paths: their names say them, as in source.ts_us."""
    endings = {column.name: column.name.rpartition("ts_")[2] for column in meta_columns if "ts_" in column.name}
    return {path: _UNIT_OF_ENDING[ending] for path, ending in endings.items() if ending in _UNIT_OF_ENDING}


def without_marks(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns that a change has values for: all but that of marks, see `Stream.latest`."""
    return tuple(column for column in columns if column.name != UNSENT_COLUMN)


@lru_cache(maxsize=64)
def _event_of_options(options_text: str) -> _Event:
    return _Event(parse_options(options_text))


def _member_at(envelope: Members, path: str) -> Any:
    """Return the value at a path of names in the envelope; None if there is none."""
    value: Any = envelope
    for name in path.split("."):
        value = dict(value).get(name) if isinstance(value, Members) else None
    return value


def _document(value: Any) -> Any:
    """Return what is written in a text of Extended JSON; anything else as it is."""
    return plain_json(parse_value(value)) if isinstance(value, str) and not isinstance(value, JsonNumber) else value


def unfit_operation(parts: Mapping[str, Any]) -> Unfit:
    operation = parts.get("op")
    if operation == TRUNCATE:
        return Unfit(
            "op t: the database's table was truncated, all its rows are gone; no key says which. If the topic has one "
            'partition, truncates="apply" deletes them here, too (docs/databases.md); or leave truncates out of the '
            "topic: skipped.operations=t"
        )
    if operation == "m":
        return Unfit("op m: a message in the database's log is no row")
    if operation is None:
        return Unfit(
            "expected Debezium's envelope with op, before, after and source (rows alone: flattened=True), found "
            f"{clip_text(', '.join(parts)) or 'no field'}"
        )
    return Unfit(f"expected op c, u, r, d, t or m, found {clip_text(write_parsed(operation))}")


def unfit_after(operation: Any, after: Any) -> Unfit:
    if isinstance(after, str):
        return Unfit(
            f"op {operation}: expected an object in after, found a text, as MongoDB's connector writes: declare "
            "documents=True"
        )
    found_text = "none" if after is None else clip_text(write_parsed(after))
    return Unfit(
        f"op {operation}: expected the whole row in after, found {found_text}. MongoDB sends no document with an "
        "update unless capture.mode=change_streams_update_full"
    )
