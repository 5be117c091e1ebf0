"""The interface of a format: it reads and writes bytes, and the form in which people write rows in tests.

Each kind is a class in the file that knows its bytes; `lakehouse.formats.codec.codec_choice` has the table. Other files
do what is the same for all kinds: `lakehouse.formats.decode` and `encode` names of fields, moments as numbers and
windows after a key; `lakehouse.formats.written_form` the checks of a written form.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from lakehouse.formats.codec.registered import LENGTH_MAX, NO_SCHEMAS, WriterSchemas, split_registered
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.json_value import decode_object, encode_object
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import SchemaOptions, parse_schema_options
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

Row = dict[str, Any]
ReadRow = Callable[[bytes, WriterSchema, tuple[Column, ...]], Row | None]


@dataclass(frozen=True, slots=True)
class Codec(ABC):
    """A kind of format with its parameters. Columns have the names and types of the topic's fields."""

    format: RecordFormat

    @abstractmethod
    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        """Return the row in the bytes of a value; None if they are a null. Raises Unfit."""

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        """Return the row in the bytes of a key; None if they are a null. Raises Unfit."""
        return self.decode(data, columns)

    def deleted_ms(self, data: bytes) -> int | None:
        """Return when a row was deleted, in milliseconds, of bytes whose row is None; None if they don't say."""
        return None

    def is_truncate(self, data: bytes) -> bool:
        """Say whether bytes whose row is None are a change log's truncate, which deletes all rows before it."""
        return False

    @abstractmethod
    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        """Return the bytes of a row; None if only Kafka's null can stand for it. Raises Unfit."""

    def encode_key(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        """Return the bytes of a key's row, as `encode` does for a value."""
        return self.encode(row, columns)

    @property
    def ignores_case(self) -> bool:
        """Whether `field_names` are those of columns in any case."""
        return False

    def field_names(self, data: bytes) -> tuple[str, ...]:
        """Return the names of the fields that a value's bytes have; none of bytes that name none, or can't be read."""
        return ()

    def with_schemas(self, schemas: WriterSchemas) -> Codec:
        """Return the codec with the schemas of the topic's writers, which a registered format reads by."""
        return self

    def declared_schemas(self, columns: tuple[Column, ...], *, is_key: bool) -> WriterSchemas:
        """Return the schemas by which what `encode` writes can be read."""
        return NO_SCHEMAS

    def options_after(self, latest: WriterSchema, columns: tuple[Column, ...]) -> SchemaOptions:
        """Return how columns are written where the subject has a newest schema already, which comes before theirs."""
        return parse_schema_options(self.format.options)

    def schema_problem(self, schema: WriterSchema, columns: tuple[Column, ...], *, is_key: bool) -> str | None:
        """Return why what a writer's schema describes can't be read into these columns; None if it can."""
        return None

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        """Return the bytes of a key or a value that somebody types, by default the text's own. Raises Unfit."""
        return text.encode("utf-8", "surrogateescape")

    def with_own_prefix(self, data: bytes) -> bytes:
        """Return a written text's bytes behind what the format puts before each key and value, by default nothing."""
        return data

    def may_be_meant(self, data: bytes, columns: tuple[Column, ...]) -> bool:
        """Say whether a producer may have meant this format, if it can read the bytes."""
        return True

    def key_text(self, written_key: Any) -> str | None:
        """Return the text of a key that people write as its text; None if they write it as values."""
        return None

    def value_text(self, written_value: Any) -> str | None:
        """Return the text of a value that people write as its text; None if they write it as a row. Raises Unfit."""
        return None

    def key_row(self, written_key: Any, columns: tuple[Column, ...]) -> Any:
        """Return the row of a key that is written as values: one alone, several in order, or an object of them."""
        if len(columns) == 1:
            return {columns[0].name: written_key}
        if isinstance(written_key, list | tuple) and len(written_key) == len(columns):
            return dict(zip((column.name for column in columns), written_key, strict=True))
        return written_key

    def value_row(self, written_value: Any, columns: tuple[Column, ...]) -> Any:
        """Return the row of a value that is written as a row."""
        return written_value

    def written_columns(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Return the columns of a value's row as people write it."""
        return columns

    def checked_row(self, row: Row, columns: tuple[Column, ...]) -> Row:
        """Return a written row for `encode`. Raises Unfit for a value that would silently give other bytes."""
        return row

    @abstractmethod
    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Return the bytes of a key as people write them. Raises Unfit for bytes that have no such form."""

    @abstractmethod
    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Return the bytes of a value as people write them. Raises Unfit for bytes that have no such form."""

    def line_spellings(self, row: Row) -> tuple[str, ...]:
        """Return the lines as which a scenario may write an expected row, beside the row itself."""
        return ()


@dataclass(frozen=True, slots=True)
class BinaryCodec(Codec):
    """A format of bytes that people write as JSON."""

    def plain_row(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        """Return the row of the bytes as they are, for those who look at them; None for a null. Raises Unfit."""
        return self.decode(data, columns)

    def checked_row(self, row: Row, columns: tuple[Column, ...]) -> Row:
        return decode_object(write_json(row).encode(), columns) or {}

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        row = self.written_row(data, columns)
        return row[columns[0].name] if len(columns) == 1 and row is not None else row

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self.written_row(data, columns)

    def written_row(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Return the row of bytes as people write it; None for a null. Raises Unfit."""
        row = self.plain_row(data, columns)
        return None if row is None else json.loads(encode_object(row, columns), parse_float=Decimal)


@dataclass(frozen=True, slots=True)
class SchemaCodec(BinaryCodec):
    """A format that nobody reads without its writer's schema, which a registry has."""

    schemas: WriterSchemas = NO_SCHEMAS

    @abstractmethod
    def read_row(self, data: bytes, schema: WriterSchema, columns: tuple[Column, ...]) -> Row | None:
        """Return the row behind a prefix; None if it is a null. Raises Unfit, UnfitSchema."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self.plain_row(data, columns)

    def plain_row(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self.decode_by(self.read_row, data, columns)

    def decode_by(self, read: ReadRow, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        """Return what a function such as `read_row` reads by the writer's schema. Raises Unfit, which names the id."""
        id, schema = split_registered(data, self.schemas)
        try:
            check_data_length(data)
            return read(data, schema, columns)
        except (Unfit, UnfitSchema) as error:
            raise Unfit(f"schema {id}: {error}") from error

    def with_schemas(self, schemas: WriterSchemas) -> Self:
        return replace(self, schemas=schemas)


def check_data_length(data: bytes) -> None:
    """Raise Unfit for more bytes than a record that is read by a schema may have."""
    if len(data) > LENGTH_MAX:
        raise Unfit(f"expected at most {LENGTH_MAX:,} bytes, found {len(data):,}")
