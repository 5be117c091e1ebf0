"""Avro with a registry's schemas as a format: "avro", or "avro?id=7" where it is written under a schema's id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from lakehouse.formats.avro.avro_bytes import ReadBytes, read_whole
from lakehouse.formats.avro.avro_columns import avro_of_format
from lakehouse.formats.avro.avro_json import text_writer
from lakehouse.formats.avro.avro_reader import bare_reader, row_reader
from lakehouse.formats.avro.avro_writer import WriteBytes, value_writer
from lakehouse.formats.codec.codec import Row, SchemaCodec
from lakehouse.formats.codec.registered import (
    PREFIX_LENGTH,
    WriterSchemas,
    encode_by_newest,
    with_prefix,
)
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.avro.avro_schema import REGISTRY_KIND, AvroType
from lakehouse.plan.avro.schema_json import write_avro
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import parse_schema_options
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema


@dataclass(frozen=True, slots=True)
class AvroCodec(SchemaCodec):
    """A record, read by the schema of its writer. People write the row as JSON; it gets the schema of the columns."""

    def read_row(self, data: bytes, schema: WriterSchema, columns: tuple[Column, ...]) -> Row | None:
        read_row = _reader(schema, columns, self.format.traits.ignores_case, self.format.traits.is_bare)
        return read_whole(read_row, data, PREFIX_LENGTH)  # type: ignore[no-any-return]

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return self._with_id(_avro_row_writer(self.format, columns, is_key=False)(row))

    def encode_key(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        key_type = _written_type(self.format, columns, is_key=True)
        if key_type.kind == "record":
            return self._with_id(_avro_row_writer(self.format, columns, is_key=True)(row))
        return self._encode_alone(row, columns, is_key=True)

    def _encode_alone(self, row: Row, columns: tuple[Column, ...], *, is_key: bool) -> bytes | None:
        value = row.get(columns[0].name)
        return None if value is None else self._with_id(_avro_row_writer(self.format, columns, is_key=is_key)(value))

    def _with_id(self, data: bytes) -> bytes:
        return with_prefix(parse_schema_options(self.format.options).written_id, data)

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        return _declared_avro_schema(self.format, columns, is_key)

    def schema_problem(self, schema: WriterSchema, columns: tuple[Column, ...], *, is_key: bool) -> str | None:
        try:
            _reader(schema, columns, self.format.traits.ignores_case, self.format.traits.is_bare)
        except Unfit as error:
            return str(error)
        return None

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        """Return the bytes of a JSON text, by the newest schema of the topic's writers that fits it and the columns.

        A text that is one string alone stands without quotes. Raises Unfit.
        """

        def encode(schema: WriterSchema) -> bytes:
            if (problem := self.schema_problem(schema, columns, is_key=is_key)) is not None:
                raise UnfitSchema(problem)
            is_text = all(branch.kind == "string" for branch in schema.avro_type.branches)
            return text_writer(schema.avro_type)(json.dumps(text) if is_text else text)

        return encode_by_newest(self.schemas, encode)


@dataclass(frozen=True, slots=True)
class AvroBareCodec(AvroCodec):
    """The only column's value without a record around it, as SQL reads and writes it. People write the value alone."""

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return self._encode_alone(row, columns, is_key=False)

    def encode_key(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return self.encode(row, columns)

    def value_row(self, written_value: Any, columns: tuple[Column, ...]) -> Any:
        return {columns[0].name: written_value}

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self.write_key(data, columns)


@lru_cache(maxsize=1024)
def _reader(schema: WriterSchema, columns: tuple[Column, ...], ignores_case: bool, is_bare: bool) -> ReadBytes:
    """Return the reader of a row. Raises Unfit for a schema that does not fit the columns; it says so each time."""
    try:
        if is_bare:
            return bare_reader(schema.avro_type, columns)
        return row_reader(schema.avro_type, columns, ignores_case=ignores_case)
    except UnfitSchema as error:
        raise Unfit(str(error)) from error


@lru_cache(maxsize=1024)  # each record that is written asks
def _written_type(format: RecordFormat, columns: tuple[Column, ...], *, is_key: bool) -> AvroType:
    return avro_of_format(format, columns, is_key=is_key)


@lru_cache(maxsize=1024)
def _avro_row_writer(format: RecordFormat, columns: tuple[Column, ...], *, is_key: bool) -> WriteBytes:
    has_millis = parse_schema_options(format.options).has_millis
    return value_writer(_written_type(format, columns, is_key=is_key), _without_micros if has_millis else None)


def _without_micros(value: Any, avro_type: AvroType) -> Any:
    """Return a value; of a timestamp only the milliseconds, which SQL has in all its formats."""
    return value.replace(microsecond=value.microsecond // 1000 * 1000) if isinstance(value, datetime) else value


@lru_cache(maxsize=1024)
def _declared_avro_schema(format: RecordFormat, columns: tuple[Column, ...], is_key: bool) -> WriterSchemas:
    text = json.dumps(write_avro(avro_of_format(format, columns, is_key=is_key)))
    return WriterSchemas({parse_schema_options(format.options).written_id: WriterSchema(REGISTRY_KIND, text)})
