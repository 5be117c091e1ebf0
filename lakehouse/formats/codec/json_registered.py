"""JSON behind a registry's prefix as a format: "json_sr", or "json_sr?id=7" where it is written under a schema's id.

The bytes after the prefix are read like JSON without a registry. That needs no schema, so the registry is not asked;
only "json_sr_valid" and its forms in SQL compare each value with the schema of its writer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from lakehouse.formats.codec.codec import Codec, Row
from lakehouse.formats.codec.json_codec import JsonAnyCaseCodec, JsonBareCodec, JsonCodec
from lakehouse.formats.codec.registered import (
    NO_SCHEMAS,
    NOTHING_TO_WRITE_BY,
    PREFIX_LENGTH,
    WriterSchemas,
    encode_by_newest,
    require_schema_id,
    split_registered,
    with_prefix,
)
from lakehouse.formats.values.json_schema import bare_schema, object_schema
from lakehouse.formats.values.json_validation import JSON_KIND, check_json, schema_problem
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import DECLARED_ID, parse_schema_options
from lakehouse.plan.registered.writer_schema import WriterSchema

# By the kind of what stands behind the prefix.
_PLAIN_CODECS: dict[str, type[JsonCodec]] = {
    "json": JsonCodec,
    "json_any_case": JsonAnyCaseCodec,
    "json_bare": JsonBareCodec,
}


@dataclass(frozen=True, slots=True)
class JsonRegisteredCodec(Codec):
    """JSON behind a prefix: an object, or a value alone. People write the JSON alone, as they do without a registry."""

    schemas: WriterSchemas = NO_SCHEMAS

    @property
    def _plain(self) -> JsonCodec:
        """The codec of what stands behind the prefix."""
        return _PLAIN_CODECS[self.format.traits.behind_prefix](self.format)

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self._plain.decode(_behind_prefix(data), columns)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self._plain.decode_key(_behind_prefix(data), columns)

    @property
    def ignores_case(self) -> bool:
        return self._plain.ignores_case

    def field_names(self, data: bytes) -> tuple[str, ...]:
        return self._plain.field_names(data[PREFIX_LENGTH:])

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        data = self._plain.encode(row, columns)
        return None if data is None else self.with_own_prefix(data)

    def with_own_prefix(self, data: bytes) -> bytes:
        return with_prefix(parse_schema_options(self.format.options).written_id, data)

    def with_schemas(self, schemas: WriterSchemas) -> JsonRegisteredCodec:
        return replace(self, schemas=schemas)

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        """Return the bytes of a JSON text, under the newest JSON Schema of the topic's writers. Raises Unfit."""
        id = max((id for id, schema in self.schemas.items() if schema.kind == JSON_KIND), default=None)
        if id is None:
            raise Unfit(NOTHING_TO_WRITE_BY)
        return with_prefix(id, self._plain.encode_typed(text, columns, is_key=is_key))

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        return _declared_json_schema(self.format, columns, is_key)

    def value_text(self, written_value: Any) -> str | None:
        return self._plain.value_text(written_value)

    def key_row(self, written_key: Any, columns: tuple[Column, ...]) -> Any:
        return self._plain.key_row(written_key, columns)

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self._plain.write_key(_behind_prefix(data), columns)

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self._plain.write_value(_behind_prefix(data), columns)


@dataclass(frozen=True, slots=True)
class JsonValidatedCodec(JsonRegisteredCodec):
    """JSON that fits its writer's schema. A null needs to fit none.

    Tests have no registry: there every JSON fits.
    """

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self._validate_row(data, self._plain.decode(_behind_prefix(data), columns))

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self._validate_row(data, self._plain.decode_key(_behind_prefix(data), columns))

    def _validate_row(self, data: bytes, row: Row | None) -> Row | None:
        if row is not None:
            check_registered_json(data, self.schemas)
        return row

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        """Return the bytes of a JSON text, under the newest schema of the writers that it fits. Raises Unfit."""
        data = self._plain.encode_typed(text, columns, is_key=is_key)

        def encode(schema: WriterSchema) -> bytes:
            check_json(schema, data)
            return data

        return encode_by_newest(self.schemas, encode)

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        return _EVERYTHING_FITS

    def schema_problem(self, schema: WriterSchema, columns: tuple[Column, ...], *, is_key: bool) -> str | None:
        return schema_problem(schema)


_EVERYTHING_FITS = WriterSchemas({DECLARED_ID: WriterSchema(JSON_KIND, "true")})


def check_registered_json(data: bytes, schemas: WriterSchemas) -> None:
    """Raise Unfit if the JSON behind a prefix does not fit the schema of its writer, or has no known one."""
    id, schema = split_registered(data, schemas)
    try:
        check_json(schema, data[PREFIX_LENGTH:])
    except Unfit as error:
        raise Unfit(f"schema {id}: {error}") from error


def _behind_prefix(data: bytes) -> bytes:
    """Return what stands behind the prefix. Raises Unfit if there is none."""
    require_schema_id(data)
    return data[PREFIX_LENGTH:]


@lru_cache(maxsize=1024)
def _declared_json_schema(format: RecordFormat, columns: tuple[Column, ...], is_key: bool) -> WriterSchemas:
    options, has_number_moments = parse_schema_options(format.options), format.has_number_moments
    if format.traits.is_bare:
        # A key that is null has no bytes; a value that is null is JSON's null.
        text = bare_schema(columns[0], options.name, is_nullable=not is_key, has_number_moments=has_number_moments)
    else:
        text = object_schema(columns, options.name, has_number_moments=has_number_moments)
    return WriterSchemas({options.written_id: WriterSchema(JSON_KIND, text)})
