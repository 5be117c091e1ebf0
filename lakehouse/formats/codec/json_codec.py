"""JSON as a format: an object, the same with names in any case, one value without an object, and Kafka Connect's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakehouse.formats.codec.codec import Codec, Row
from lakehouse.formats.values.connect_record import read_record
from lakehouse.formats.values.connect_value import DeclaredValues, read_row, split_payload
from lakehouse.formats.values.json_key import decode_single_key
from lakehouse.formats.values.json_text import (
    Members,
    parse_object,
    parse_value,
    write_json,
)
from lakehouse.formats.values.json_value import (
    decode_any_case,
    decode_bare_value,
    decode_object,
    encode_bare_value,
    encode_object,
)
from lakehouse.formats.values.unfit import Unfit, decode_utf8
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.blanks import JSON_BLANKS
from lakehouse.semantics.surrogates import replace_surrogates

_NOTHING_DECLARED = DeclaredValues()


@dataclass(frozen=True, slots=True)
class JsonCodec(Codec):
    """An object with a field for each column. People write any JSON value, even if it does not fit the schema."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_object(data, columns)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_single_key(data, columns) if len(columns) == 1 else self.decode(data, columns)

    def field_names(self, data: bytes) -> tuple[str, ...]:
        with suppress(Unfit):
            return names_of_members(parse_object(decode_utf8(data)))
        return ()

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return encode_object(row, columns)

    def value_text(self, written_value: Any) -> str | None:
        try:
            return write_json(written_value)
        except (TypeError, ValueError) as error:
            raise Unfit(str(error)) from error

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        key = self.write_value(data, columns)
        return key.get(columns[0].name) if isinstance(key, dict) and len(columns) == 1 else key

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        try:
            # NaN is no JSON: people write "NaN".
            return json.loads(decode_utf8(data), parse_float=Decimal, parse_constant=str)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise Unfit(f"not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class JsonAnyCaseCodec(JsonCodec):
    """An object as SQL reads it: names in any case, numbers in quotes."""

    @property
    def ignores_case(self) -> bool:
        return True

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_any_case(data, columns)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return self.decode(data, columns)

    def key_row(self, written_key: Any, columns: tuple[Column, ...]) -> Any:
        if len(columns) == 1 or not isinstance(written_key, Mapping):
            return JsonCodec.key_row(self, written_key, columns)
        names_by_lower = {column.name.lower(): column.name for column in columns}
        return {names_by_lower.get(name.lower(), name): part for name, part in written_key.items()}


@dataclass(frozen=True, slots=True)
class JsonBareCodec(JsonCodec):
    """The only column's value, as SQL reads it."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_bare_value(data, columns)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_single_key(data, columns, is_loose=True) if len(columns) == 1 else self.decode(data, columns)

    def field_names(self, data: bytes) -> tuple[str, ...]:
        return ()

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return encode_bare_value(row, columns)

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self.write_value(data, columns)


@dataclass(frozen=True, slots=True)
class ConnectJsonCodec(JsonCodec):
    """A row, or the only column's value, with its schema beside it: {"schema": ..., "payload": ...}, or without one.

    Kafka Connect's JsonConverter writes the schema if `schemas.enable` is true; each record is looked at by itself. How
    a value is read is in `lakehouse.formats.values.connect_value`. Without a schema it is JSON, and nobody writes more.
    """

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return _read_connect_row(data, columns, is_key=False)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return _read_connect_row(data, columns, is_key=True)

    def field_names(self, data: bytes) -> tuple[str, ...]:
        with suppress(Unfit):
            return names_of_members(read_record(decode_utf8(data), _parse)[1])
        return ()

    def key_text(self, written_key: Any) -> str | None:
        return write_json(written_key) if _has_schema(written_key) else None

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        key = self.write_value(data, columns)
        if _has_schema(key):
            key = key["payload"]
        return key.get(columns[0].name) if isinstance(key, dict) and len(columns) == 1 else key

    def may_be_meant(self, data: bytes, columns: tuple[Column, ...]) -> bool:
        with suppress(Unfit):
            return split_payload(_parse(decode_utf8(data)))[0] is not None
        return False


def _read_connect_row(data: bytes, columns: tuple[Column, ...], *, is_key: bool) -> Row | None:
    schema, payload = read_record(decode_utf8(data), _parse)
    return None if payload is None else read_row(payload, columns, schema.parsed, _NOTHING_DECLARED, is_key=is_key)


def names_of_members(value: Any) -> tuple[str, ...]:
    """Return the names of a parsed object's fields; none of another value."""
    return tuple(replace_surrogates(name) for name, _ in value) if isinstance(value, Members) else ()


def _has_schema(written_key: Any) -> bool:
    """Say whether people wrote a key with the schema beside it."""
    return isinstance(written_key, Mapping) and written_key.keys() == {"schema", "payload"}


def _parse(text: str) -> Any:
    return parse_object(text) if text.strip(JSON_BLANKS).startswith("{") else parse_value(text)
