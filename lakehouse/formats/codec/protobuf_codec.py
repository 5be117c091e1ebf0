"""Protobuf as a format. With a registry's schemas: "protobuf", or "protobuf?id=7" where it is written by a schema.

Without a registry: "protobuf_nosr?schema=...", a message alone, by a schema that the format has in its options; if it
has none, by that of the columns in their order, as ksqlDB writes it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from functools import lru_cache

from lakehouse.formats.codec.codec import BinaryCodec, Row, SchemaCodec, check_data_length
from lakehouse.formats.codec.registered import (
    PREFIX_LENGTH,
    WriterSchemas,
    encode_by_newest,
    with_prefix,
)
from lakehouse.formats.protobuf.proto_indexes import FIRST, FIRST_BYTES, read_indexes
from lakehouse.formats.protobuf.proto_json import write_json_text
from lakehouse.formats.protobuf.proto_numbers import numbers_after
from lakehouse.formats.protobuf.proto_reader import ReadMessage, message_reader
from lakehouse.formats.protobuf.proto_writer import WriteRow, proto_text, row_writer
from lakehouse.formats.protobuf.row_message import encode_row
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import SchemaOptions, parse_schema_options
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND, ProtoSchema
from lakehouse.plan.protobuf.protoc import schema_of_files
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema


@dataclass(frozen=True, slots=True)
class ProtobufCodec(SchemaCodec):
    """A message, read by the schema of its writer. People write the row as JSON; it gets the schema of the columns.

    A key of one column is a message, too.
    """

    def read_row(self, data: bytes, schema: WriterSchema, columns: tuple[Column, ...]) -> Row | None:
        indexes, place = read_indexes(data, PREFIX_LENGTH)
        read_message = _message_reader_of(schema, indexes, columns, self.format.traits.ignores_case)
        if isinstance(read_message, str):
            raise Unfit(read_message)
        return read_message(data[place:])

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        data = _row_writer(self.format, columns)(row)
        return with_prefix(parse_schema_options(self.format.options).written_id, FIRST_BYTES + data)

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        return _declared_protobuf_schema(self.format, columns)

    def options_after(self, latest: WriterSchema, columns: tuple[Column, ...]) -> SchemaOptions:
        options = parse_schema_options(self.format.options)
        try:
            schema = latest.proto_schema
        except UnfitSchema:
            return options  # the registry decides what may follow it
        return replace(options, numbers=numbers_after(schema, {column.name: column.type for column in columns}))

    def schema_problem(self, schema: WriterSchema, columns: tuple[Column, ...], *, is_key: bool) -> str | None:
        read_row = _message_reader_of(schema, FIRST, columns, self.format.traits.ignores_case)
        return read_row if isinstance(read_row, str) else None

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        """Return the bytes of a JSON text, by the newest schema of the topic's writers that fits it and the columns.

        The text is in Protobuf's own JSON. Raises Unfit if there is none.
        """

        def encode(schema: WriterSchema) -> bytes:
            if (problem := self.schema_problem(schema, columns, is_key=is_key)) is not None:
                raise Unfit(problem)
            proto_schema = schema.proto_schema
            return FIRST_BYTES + write_json_text(proto_schema, proto_schema.tops[0], text)

        return encode_by_newest(self.schemas, encode)


@dataclass(frozen=True, slots=True)
class ProtobufPlainCodec(BinaryCodec):
    """A message alone: the first one of its schema."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        check_data_length(data)
        read_message = _own_schema_reader(self.format, columns)
        if isinstance(read_message, str):
            raise Unfit(read_message)
        return read_message(data)

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        if not parse_schema_options(self.format.options).schema:
            return _row_writer(self.format, columns)(row)
        schema = own_schema(self.format, columns)
        return encode_row(schema, row, ignores_case=self.format.traits.ignores_case)

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        """Return the bytes of a JSON text, which is in Protobuf's own JSON. Raises Unfit."""
        schema = own_schema(self.format, columns)
        return write_json_text(schema, schema.tops[0], text)


@lru_cache(maxsize=256)
def own_schema(format: RecordFormat, columns: tuple[Column, ...]) -> ProtoSchema:
    """Return the schema of messages without an id."""
    options = parse_schema_options(format.options)
    if options.schema:
        return schema_of_files(base64.b64decode(options.schema))
    return WriterSchema(PROTOBUF_KIND, proto_text(columns, options)).proto_schema


@lru_cache(maxsize=1024)
def _own_schema_reader(format: RecordFormat, columns: tuple[Column, ...]) -> ReadMessage | str:
    """Return the reader of a row; for a schema that does not fit the columns the reason."""
    try:
        schema = own_schema(format, columns)
        return message_reader(schema, schema.message(), columns, ignores_case=format.traits.ignores_case)
    except (Unfit, UnfitSchema) as error:
        return str(error)


@lru_cache(maxsize=1024)
def _message_reader_of(
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
def _declared_protobuf_schema(format: RecordFormat, columns: tuple[Column, ...]) -> WriterSchemas:
    options = parse_schema_options(format.options)
    return WriterSchemas({options.written_id: WriterSchema(PROTOBUF_KIND, proto_text(columns, options))})
