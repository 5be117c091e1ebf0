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

import struct
from typing import Any

from lakehouse.formats.unfit import Unfit, decode_utf8, unfit_value
from lakehouse.plan.schema import Column, base_type

_STRUCTS = {"int": struct.Struct(">i"), "bigint": struct.Struct(">q"), "double": struct.Struct(">d")}


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
        except struct.error as error:
            raise Unfit(f"{column}: {value!r} can't be written: {error}") from error
    return value.encode("utf-8") if isinstance(value, str) else bytes(value)
