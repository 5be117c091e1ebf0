"""Kafka's primitives to a row of one column and back, as in `org.apache.kafka.common.serialization`.

| type   | bytes                        |
|--------|------------------------------|
| string | UTF-8                        |
| int    | 4, big endian, signed        |
| bigint | 8, big endian, signed        |
| double | 8, big endian, IEEE 754      |
| binary | as they are                  |
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakehouse.formats.codec.codec import Codec, Row
from lakehouse.formats.codec.delimited import line_of
from lakehouse.formats.values.text_value import NOT_FINITE, parse_binary, text_reader
from lakehouse.formats.values.unfit import Unfit, clip_text, decode_utf8, unfit_value
from lakehouse.plan.expression.schema import Column, base_type

_STRUCTS = {"int": struct.Struct(">i"), "bigint": struct.Struct(">q"), "double": struct.Struct(">d")}
# The Python type of each primitive: a value of another type would silently give other bytes.
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "bigint": (int,),
    "double": (int, float, Decimal),
    "binary": (bytes, str),
}


@dataclass(frozen=True, slots=True)
class PrimitiveCodec(Codec):
    """One primitive. People write the value itself, or an object of one; a binary as bytes or as base64."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_primitive(data, columns)

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        # A null primitive has no bytes, so it can't be distinguished from a null key or a tombstone.
        return None if row.get(columns[0].name) is None else encode_primitive(row, columns)

    def encode_typed(self, text: str, columns: tuple[Column, ...], *, is_key: bool = False) -> bytes:
        (column,) = columns
        if base_type(column.type) not in _STRUCTS:
            return Codec.encode_typed(self, text, columns, is_key=is_key)
        return encode_primitive({column.name: text_reader(base_type(column.type))(text)}, columns)

    def may_be_meant(self, data: bytes, columns: tuple[Column, ...]) -> bool:
        # Eight letters could also be a bigint, but their producer meant a string.
        is_text = data.isascii() and data.decode("ascii").isprintable()
        return not is_text or base_type(columns[0].type) not in _STRUCTS

    def value_row(self, written_value: Any, columns: tuple[Column, ...]) -> Any:
        return written_value if isinstance(written_value, Mapping) else {columns[0].name: written_value}

    def checked_row(self, row: Row, columns: tuple[Column, ...]) -> Row:
        (column,) = columns
        type_name, value = base_type(column.type), row.get(column.name)
        if value is None:
            return {column.name: None}
        if type_name == "double" and isinstance(value, str) and value in NOT_FINITE:
            return {column.name: NOT_FINITE[value]}
        if not isinstance(value, _PYTHON_TYPES[type_name]) or isinstance(value, bool):
            raise Unfit(f"{column}: expected {type_name}, found {clip_text(repr(value))}")
        return {column.name: parse_binary(value) if type_name == "binary" and isinstance(value, str) else value}

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return self.write_value(data, columns)

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        value = (self.decode(data, columns) or {}).get(columns[0].name)
        return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value

    def line_spellings(self, row: Row) -> tuple[str, ...]:
        return (line_of(row), *(str(value) for value in row.values() if len(row) == 1))


def decode_primitive(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of one column in a primitive's bytes. Raises Unfit for bytes of a wrong length, or not UTF-8."""
    (column,) = columns
    type_name = base_type(column.type)
    if type_name in _STRUCTS:
        if len(data) != _STRUCTS[type_name].size:
            raise unfit_value(f"{_STRUCTS[type_name].size} bytes ({type_name})", f"{len(data)}: 0x{data.hex()}")
        return {column.name: _STRUCTS[type_name].unpack(data)[0]}
    return {column.name: decode_utf8(data) if type_name == "string" else data}


def encode_primitive(row: dict[str, Any], columns: tuple[Column, ...]) -> bytes:
    """Return the bytes of a row's only column, which is not null. Raises Unfit if the type can't hold the value."""
    (column,) = columns
    type_name, value = base_type(column.type), row[column.name]
    if type_name in _STRUCTS:
        try:
            return _STRUCTS[type_name].pack(value)
        except (struct.error, OverflowError) as error:
            raise Unfit(f"{column}: {clip_text(repr(value))} can't be written: {error}") from error
    return value.encode("utf-8") if isinstance(value, str) else bytes(value)
