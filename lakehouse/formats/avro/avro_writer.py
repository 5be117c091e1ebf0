"""Values of a table's columns as Avro, in the schema that `lakehouse.plan.avro.avro_columns` derives for them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lakehouse.formats.values.text_value import round_to_float32
from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.semantics.moment import to_microseconds

WriteBytes = Callable[[Any], bytes]
_EPOCH_DATE = date(1970, 1, 1)
_BITS = {"int": 32, "long": 64}
_END = b"\x00"


def write_long(number: int) -> bytes:
    """Return an int or a long, which are written alike."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


@lru_cache(maxsize=1024)
def value_writer(avro_type: AvroType) -> WriteBytes:
    """Return the function that writes a value of the type; it raises Unfit for one that the type can't hold."""
    match avro_type.kind:
        case "union":
            return _nullable_writer(avro_type)
        case "record":
            return _record_writer(avro_type)
        case "array":
            write_item = value_writer(avro_type.parts[0])
            return lambda items: b"".join((write_long(len(items)), *map(write_item, items), _END)) if items else _END
        case "map":
            return _map_writer(value_writer(avro_type.parts[0]))
        case "boolean":
            return lambda value: b"\x01" if _require(value, bool) else _END
        case "float":
            return lambda value: struct.pack("<f", round_to_float32(float(_number(value))))
        case "double":
            return lambda value: struct.pack("<d", float(_number(value)))
        case "string":
            return lambda value: _with_length(_require(value, str).encode("utf-8"))
        case "bytes" if avro_type.logical == "decimal":
            return lambda value: _write_decimal(value, avro_type)
        case "bytes":
            return lambda value: _with_length(bytes(_require(value, bytes, bytearray)))
    if avro_type.logical == "date":
        return lambda value: write_long((_require(value, date) - _EPOCH_DATE).days)
    if avro_type.logical == "timestamp-micros":
        return lambda value: write_long(to_microseconds(_in_utc(_require(value, datetime))))
    if avro_type.logical == "timestamp-millis":
        return lambda value: write_long(to_microseconds(_in_utc(_require(value, datetime))) // 1000)
    return lambda value: _write_integer(value, avro_type.kind)


def _require(value: Any, *types: type) -> Any:
    if not isinstance(value, types):
        raise Unfit(f"expected {types[0].__name__}, found {clip_text(repr(value))}")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise Unfit(f"expected a number, found {value}")
    return _require(value, int, float, Decimal)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _with_length(data: bytes) -> bytes:
    return write_long(len(data)) + data


def _write_integer(value: Any, kind: str) -> bytes:
    limit = 1 << (_BITS[kind] - 1)
    number = _number(value)
    if number != int(number) or not -limit <= number < limit:
        raise Unfit(f"expected {kind}, found {clip_text(repr(value))}")
    return write_long(int(number))


def _write_decimal(value: Any, avro_type: AvroType) -> bytes:
    sign, digits, exponent = Decimal(_require(_number(value), int, Decimal)).as_tuple()
    zeros = int(exponent) + avro_type.scale if isinstance(exponent, int) else -1
    unscaled = int("".join(map(str, digits)) or "0")
    if zeros < 0 or zeros > avro_type.precision or unscaled * 10**zeros >= 10**avro_type.precision:
        raise Unfit(f"expected {avro_type}, found {clip_text(repr(value))}")
    number = (-1 if sign else 1) * unscaled * 10**zeros
    return _with_length(number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True))


def _nullable_writer(avro_type: AvroType) -> WriteBytes:
    """Return the writer of a union of null and another type, in this order."""
    write_value = value_writer(avro_type.parts[1])
    return lambda value: _END if value is None else b"\x02" + write_value(value)


def _record_writer(avro_type: AvroType) -> WriteBytes:
    writers = [(name, value_writer(part)) for name, part in zip(avro_type.fields, avro_type.parts, strict=True)]

    def write(row: Any) -> bytes:
        written = []
        for name, write_part in writers:
            try:
                written.append(write_part(row.get(name)))
            except Unfit as error:
                raise Unfit(f"field {name}: {error}") from error
        return b"".join(written)

    return write


def _map_writer(write_item: WriteBytes) -> WriteBytes:
    def write(values: Any) -> bytes:
        if not values:
            return _END
        entries = (_with_length(key.encode("utf-8")) + write_item(value) for key, value in values.items())
        return b"".join((write_long(len(values)), *entries, _END))

    return write
