"""Protobuf with a registry's schemas as a format: "protobuf", or "protobuf?id=7" where it is written by a schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lakehouse.formats.avro.avro_bytes import LENGTH_MAX
from lakehouse.formats.codec import Codec, Row
from lakehouse.formats.protobuf.proto_indexes import FIRST, FIRST_BYTES, read_indexes
from lakehouse.formats.protobuf.proto_json import write_json_text
from lakehouse.formats.protobuf.proto_numbers import numbers_after
from lakehouse.formats.protobuf.proto_reader import ReadMessage, message_reader
from lakehouse.formats.protobuf.proto_writer import WriteRow, proto_text, row_writer
from lakehouse.formats.registered import (
    NO_SCHEMAS,
    PREFIX_LENGTH,
    WriterSchemas,
    split_registered,
    with_prefix,
)
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.json_value import decode_object, encode_object
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import SchemaOptions, parse_schema_options
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.plan.schema import Column


@dataclass(frozen=True, slots=True)
class ProtobufCodec(Codec):
    """A message, read by the schema of its writer. People write the row as JSON; it gets the schema of the columns.

    A key of one column is a message, too.
    """

    schemas: WriterSchemas = NO_SCHEMAS

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        id, schema = split_registered(data, self.schemas)
        if len(data) > LENGTH_MAX:
            raise Unfit(f"schema {id}: expected at most {LENGTH_MAX:,} bytes, found {len(data):,}")
        try:
            indexes, place = read_indexes(data, PREFIX_LENGTH)
            read_row = _reader(schema, indexes, columns, self.format.traits.ignores_case)
            if isinstance(read_row, str):
                raise Unfit(read_row)
            return read_row(data[place:])
        except Unfit as error:
            raise Unfit(f"schema {id}: {error}") from error

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        data = _row_writer(self.format, columns)(row)
        return with_prefix(parse_schema_options(self.format.options).written_id, FIRST_BYTES + data)

    def with_schemas(self, schemas: WriterSchemas) -> ProtobufCodec:
        return replace(self, schemas=schemas)

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        return _declared_schemas(self.format, columns)

    def options_after(self, latest: WriterSchema, columns: tuple[Column, ...]) -> SchemaOptions:
        options = parse_schema_options(self.format.options)
        try:
            schema = latest.proto_schema
        except UnfitSchema:
            return options  # the registry decides what may follow it
        return replace(options, numbers=numbers_after(schema, {column.name: column.type for column in columns}))

    def schema_problem(self, schema: WriterSchema, columns: tuple[Column, ...], *, is_key: bool) -> str | None:
        read_row = _reader(schema, FIRST, columns, self.format.traits.ignores_case)
        return read_row if isinstance(read_row, str) else None

    def encode_typed(self, text: str, columns: tuple[Column, ...]) -> bytes:
        """Return the bytes of a JSON text, by the newest schema of the topic's writers that fits it and the columns.

        The text is in Protobuf's own JSON. Raises Unfit if there is none.
        """
        reasons: list[str] = []
        for id in sorted(self.schemas, reverse=True):
            problem = self.schema_problem(self.schemas[id], columns, is_key=False)
            try:
                if problem is not None:
                    raise Unfit(problem)
                schema = self.schemas[id].proto_schema
                return with_prefix(id, FIRST_BYTES + write_json_text(schema, schema.tops[0], text))
            except Unfit as error:
                reasons.append(f"schema {id}: {error}")
        raise Unfit([*reasons, "no schema of the topic's writers is known by which it could be written"][0])

    def checked_row(self, row: Row, columns: tuple[Column, ...]) -> Row:
        return decode_object(write_json(row).encode(), columns) or {}

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        row = self._written_row(data, columns)
        return row[columns[0].name] if len(columns) == 1 and row is not None else row

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self._written_row(data, columns)

    def _written_row(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        row = self.decode(data, columns)
        return None if row is None else json.loads(encode_object(row, columns), parse_float=Decimal)


@lru_cache(maxsize=1024)
def _reader(
    schema: WriterSchema, indexes: tuple[int, ...], columns: tuple[Column, ...], ignores_case: bool
) -> ReadMessage | str:
    """Return the reader of a row; for a schema that does not fit the columns the reason: it is judged once."""
    try:
        proto_schema = schema.proto_schema
        return message_reader(proto_schema, proto_schema.message(indexes), columns, ignores_case=ignores_case)
    except (Unfit, UnfitSchema) as error:
        return str(error)


@lru_cache(maxsize=1024)  # each record that is written asks
def _row_writer(format: RecordFormat, columns: tuple[Column, ...]) -> WriteRow:
    return row_writer(columns, parse_schema_options(format.options))


@lru_cache(maxsize=1024)
def _declared_schemas(format: RecordFormat, columns: tuple[Column, ...]) -> WriterSchemas:
    options = parse_schema_options(format.options)
    return WriterSchemas({options.written_id: WriterSchema(PROTOBUF_KIND, proto_text(columns, options))})
