"""Debezium's change events in Avro, with a registry's schemas: rows, deletes and reasons as in JSON, types by schema.

See `lakehouse.formats.codec.debezium`. Nothing has to be declared of decimals and times: their types are in the schema.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakehouse.formats.avro.avro_bytes import BrokenBytes, ReadBytes, read_whole
from lakehouse.formats.avro.avro_reader import row_reader
from lakehouse.formats.codec.avro_codec import AvroCodec
from lakehouse.formats.codec.codec import Row
from lakehouse.formats.codec.debezium import (
    COMMITTED,
    DELETE,
    DELETED,
    DELETED_MARK,
    ENVELOPE_FOUND,
    NEW_ROW,
    NOT_SENT,
    NOT_SENT_WITH_A_NEW_ROW,
    OPERATION_MARK,
    ROW_AFTER,
    TRUNCATE,
    split_columns,
    unfit_after,
    unfit_operation,
    without_marks,
)
from lakehouse.formats.codec.registered import PREFIX_LENGTH, WriterSchemas, split_registered
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.values.unsent import unsent_values
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.expression.schema import Column, base_type, field_types
from lakehouse.plan.names.debezium_options import UNSENT_COLUMN, DebeziumOptions, parse_options
from lakehouse.plan.names.field import in_backticks
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

_MARKS = (DELETED_MARK, OPERATION_MARK)


@dataclass(frozen=True, slots=True)
class DebeziumAvroCodec(AvroCodec):
    """A change event; its key is the row of the primary key, as in Avro."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self.decode_by(self._read_event, data, columns)

    def _read_event(self, data: bytes, schema: WriterSchema, columns: tuple[Column, ...]) -> Row | None:
        event = _event_of_schema(schema, columns, self.format.options)
        return event.flattened_row(data) if event.options.flattened else event.row(data)

    def deleted_ms(self, data: bytes) -> int | None:
        if (event := self._read_delete(data)) is not None and event["op"] in (DELETE, TRUNCATE):
            time: int | None = _value_at(event, COMMITTED.name.split("."))
            return time
        return None

    def is_truncate(self, data: bytes) -> bool:
        return (event := self._read_delete(data)) is not None and event["op"] == TRUNCATE

    def _read_delete(self, data: bytes) -> Row | None:
        """Return what an envelope says of a delete; None for other bytes."""
        with suppress(Unfit, UnfitSchema):
            _, schema = split_registered(data, self.schemas)
            event: Row | None = _delete_reader(schema)(data, PREFIX_LENGTH)[0]
            return event
        return None

    def written_columns(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return event_columns(columns, parse_options(self.format.options))

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        return AvroCodec.declared_schemas(self, columns if is_key else self.written_columns(columns), is_key=is_key)

    def schema_problem(self, schema: WriterSchema, columns: tuple[Column, ...], *, is_key: bool) -> str | None:
        if is_key:
            return AvroCodec.schema_problem(self, schema, columns, is_key=True)
        try:
            _event_of_schema(schema, columns, self.format.options)
        except (Unfit, UnfitSchema) as error:
            return str(error)
        return None

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self.written_row(data, self.written_columns(columns))

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self.plain_row(data, columns)


@lru_cache(maxsize=256)
def event_columns(columns: tuple[Column, ...], options: DebeziumOptions) -> tuple[Column, ...]:
    """Return the columns of an event as people write it: its op, the row, and what else of the envelope is read."""
    columns = without_marks(columns)
    if options.flattened:
        return (*columns, *(Column(mark, "string") for mark in _undeclared_marks(columns)))
    row_columns, meta_columns = split_columns(columns, options.meta)
    parts: dict[str, Any] = {"op": "string", "after": {column.name: column.type for column in row_columns}}
    for column in meta_columns:
        own_part: Any = _parts_of_type(column.type)
        for name in reversed(column.name.split(".")):
            own_part = {name: own_part}
        parts = _merge_parts(parts, own_part)
    return tuple(Column(name, _type_of_parts(part)) for name, part in parts.items())


def _undeclared_marks(columns: tuple[Column, ...]) -> list[str]:
    """Return the marks of a flattened row that are none of its columns."""
    declared_names = {column.name.lower() for column in columns}
    return [mark for mark in _MARKS if mark not in declared_names]


def _parts_of_type(declared_type: str) -> Any:
    """Return a struct as a dict of its fields, any other type as it is."""
    if base_type(declared_type) != "struct":
        return declared_type
    return {name: _parts_of_type(member_type) for name, member_type in field_types(declared_type).items()}


def _merge_parts(part: Any, other_part: Any) -> Any:
    """Return a struct with the fields of both parts; if only one part is a struct, this part; else the other part."""
    if isinstance(part, dict) and isinstance(other_part, dict):
        return part | {name: _merge_parts(part.get(name), item) for name, item in other_part.items()}
    return part if isinstance(part, dict) else other_part


def _type_of_parts(part: Any) -> str:
    """Return a type; of a dict that of a struct."""
    if isinstance(part, str):
        return part
    return _struct_type([(name, _type_of_parts(item)) for name, item in part.items()])


@lru_cache(maxsize=256)
def _delete_reader(schema: WriterSchema) -> ReadBytes:
    """Return the reader of what an envelope says of a delete. Raises Unfit, UnfitSchema."""
    source, name = COMMITTED.name.split(".")
    columns = (Column("op", "string"), Column(source, _struct_type([(name, COMMITTED.type)])))
    return row_reader(schema.avro_type, columns, ignores_case=True)


@lru_cache(maxsize=256)
def _event_of_schema(schema: WriterSchema, columns: tuple[Column, ...], options: str) -> _Event:
    """Return the reader of events. Raises Unfit, UnfitSchema for a schema that is not of such events."""
    return _Event(schema.avro_type, columns, parse_options(options))


class _Event:
    """A reader of the events of one schema. Raises Unfit for a schema that is not of such events, or does not fit."""

    def __init__(self, avro_type: AvroType, columns: tuple[Column, ...], options: DebeziumOptions) -> None:
        self.options = options
        columns = without_marks(columns)
        row_columns, meta_columns = (columns, ()) if options.flattened else split_columns(columns, options.meta)
        unsent_by_name = {column.name: unsent_values(column.type, options.unavailable) for column in row_columns}
        self._unsent_values = {name: values for name, values in unsent_by_name.items() if values}
        if options.flattened:
            if is_envelope(avro_type) and _field(avro_type, "source") is not None:
                raise Unfit(ENVELOPE_FOUND)
            self._undeclared_marks = _undeclared_marks(columns)
            self._names_of_marks = {column.name.lower(): column.name for column in columns}
            marks = [
                Column(mark, "boolean" if _has_boolean(avro_type, mark) else "string")
                for mark in self._undeclared_marks
                if _field(avro_type, mark) is not None
            ]
            self._read = row_reader(avro_type, (*columns, *marks), ignores_case=True)
            return
        if not is_envelope(avro_type):
            raise Unfit(
                "expected Debezium's envelope with op, before, after and source (rows alone: flattened=True), found "
                f"{avro_type}"
            )
        after = Column("after", _struct_type([(column.name, column.type) for column in row_columns]))
        self._read = row_reader(avro_type, (Column("op", "string"), after), ignores_case=True)
        self._metas = [(column.name.split("."), _meta_reader(avro_type, column)) for column in meta_columns]

    def row(self, data: bytes) -> Row | None:
        """Return the row after a change; None for a delete."""
        envelope = self._read_event(data)
        operation, after = envelope["op"], envelope["after"]
        if operation == DELETE or (operation == TRUNCATE and self.options.applies_truncates):
            self._check_meta_bytes(data)
            return None
        if operation not in ROW_AFTER:
            raise unfit_operation(envelope)
        if after is None:
            raise unfit_after(operation, None)
        self._mark_unsent(after, operation)
        metas = {".".join(path): _value_at(read(data, PREFIX_LENGTH)[0], path) for path, read in self._metas}
        return {**after, **metas}

    def _check_meta_bytes(self, data: bytes) -> None:
        """Raise Unfit if the bytes of a meta column are broken. Of a delete, whether its value fits is not asked."""
        for _, read in self._metas:
            try:
                read(data, PREFIX_LENGTH)
            except BrokenBytes:
                raise
            except Unfit:
                continue

    def flattened_row(self, data: bytes) -> Row | None:
        """Return the row that stands alone; None if its field __deleted is true."""
        row = self._read_event(data)
        deleted, operation = (row.get(self._names_of_marks.get(mark, mark)) for mark in _MARKS)
        if deleted in DELETED or operation == DELETE:
            return None
        if operation is not None and operation not in ROW_AFTER:
            raise unfit_operation({"op": operation})
        for mark in self._undeclared_marks:
            row.pop(mark, None)
        self._mark_unsent(row, operation)
        return row

    def _read_event(self, data: bytes) -> Row:
        row = read_whole(self._read, data, PREFIX_LENGTH)
        if row is None:
            raise Unfit("expected a change event, found a null")
        return row  # type: ignore[no-any-return]

    def _mark_unsent(self, row: Row, operation: str | None) -> None:
        unsent = [name for name, values in self._unsent_values.items() if row[name] in values]
        if unsent and not self.options.marks_unsent:
            raise Unfit(f"field {unsent[0]}: {NOT_SENT}")
        if unsent and operation in NEW_ROW:
            raise Unfit(f"field {unsent[0]}: {NOT_SENT_WITH_A_NEW_ROW}")
        if self.options.marks_unsent:
            row |= dict.fromkeys(unsent) | {UNSENT_COLUMN: unsent}


def is_envelope(avro_type: AvroType) -> bool:
    """Say whether a type has the parts of an event that are read of each."""
    return _field(avro_type, "op") is not None and _field(avro_type, "after") is not None


def _field(avro_type: AvroType, name: str) -> AvroType | None:
    """Return the type of a field of a record, which may be in a union with null; None if there is none."""
    return avro_type.branches[0].field(name) if len(avro_type.branches) == 1 else None


def _has_boolean(avro_type: AvroType, name: str) -> bool:
    field_type = _field(avro_type, name)
    return field_type is not None and any(branch.kind == "boolean" for branch in field_type.branches)


def _meta_reader(avro_type: AvroType, column: Column) -> ReadBytes:
    """Return the reader of the part of an envelope that has a meta column, such as source.lsn."""
    first, *others = column.name.split(".")
    declared_type = column.type
    for name in reversed(others):
        declared_type = _struct_type([(name, declared_type)])
    return row_reader(avro_type, (Column(first, declared_type),), ignores_case=True)


def _value_at(row: Any, path: list[str]) -> Any:
    for name in path:
        row = None if row is None else row.get(name)
    return row


def _struct_type(members: list[tuple[str, str]]) -> str:
    """Return a struct's type. Names are of any characters."""
    return f"struct<{', '.join(f'{in_backticks(name)}: {declared_type}' for name, declared_type in members)}>"
