"""JSON as a format: an object, the same with names in any case, and one value without an object around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakehouse.formats.codec import Codec, Row
from lakehouse.formats.values.json_key import decode_single_key
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.json_value import (
    decode_any_case,
    decode_bare_value,
    decode_object,
    encode_bare_value,
    encode_object,
)
from lakehouse.formats.values.unfit import Unfit, decode_utf8
from lakehouse.plan.schema import Column


@dataclass(frozen=True, slots=True)
class JsonCodec(Codec):
    """An object with a field for each column. People write any JSON value, also one that does not fit the schema."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_object(data, columns)

    def decode_key(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_single_key(data, columns) if len(columns) == 1 else self.decode(data, columns)

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
            return json.loads(decode_utf8(data), parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise Unfit(f"not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class JsonAnyCaseCodec(JsonCodec):
    """An object as SQL reads it: names in any case, numbers in quotes."""

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

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return encode_bare_value(row, columns)

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self.write_value(data, columns)
