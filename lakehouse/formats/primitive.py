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

from lakehouse.formats.unfit import Unfit, expected, utf8
from lakehouse.plan.schema import Column, base_type

_PACKED = {"int": struct.Struct(">i"), "bigint": struct.Struct(">q"), "double": struct.Struct(">d")}


def decode(data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of one column in a primitive's bytes; Unfit if it is not UTF-8, or of another length."""
    (column,) = columns
    kind = base_type(column.type)
    if kind in _PACKED:
        if len(data) != _PACKED[kind].size:
            raise expected(f"{_PACKED[kind].size} bytes ({kind})", f"{len(data)}: 0x{data.hex()}")
        return {column.name: _PACKED[kind].unpack(data)[0]}
    return {column.name: utf8(data) if kind == "string" else data}


def encode(row: dict[str, Any], columns: tuple[Column, ...]) -> bytes:
    """Return the bytes of a row's one column, which is not null. Unfit if the type can't hold it."""
    (column,) = columns
    kind, value = base_type(column.type), row[column.name]
    if kind in _PACKED:
        try:
            return _PACKED[kind].pack(value)
        except struct.error as error:
            raise Unfit(f"{column}: {value!r} can't be written: {error}") from error
    return value.encode("utf-8") if isinstance(value, str) else bytes(value)
