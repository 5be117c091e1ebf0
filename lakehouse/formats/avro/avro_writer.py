"""Values as Avro's binary encoding: Python's values, or parsed JSON with a function that reads its leaves.

Of a union the first branch that can hold a value is the one. A float or a double gets the nearest number; nothing else
is written with a loss: such a value does not fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lakehouse.formats.values.json_text import JsonNumber, Members, write_parsed
from lakehouse.formats.values.text_value import round_to_float32
from lakehouse.formats.values.unfit import Unfit, unfit_value
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.semantics.epoch_time import to_microseconds

WriteBytes = Callable[[Any], bytes]
ReadLeaf = Callable[[Any, AvroType], Any]
_EPOCH_DATE = date(1970, 1, 1)
_BITS = {"int": 32, "long": 64}
_MICROS = {"timestamp-millis": 1000, "timestamp-micros": 1}
_END = b"\x00"


def write_long(number: int) -> bytes:
    """Return an int or a long, which are written alike."""
    rest = (number << 1) ^ (number >> 63)
    varint = bytearray()
    while rest > 0x7F:
        varint.append(rest & 0x7F | 0x80)
        rest >>= 7
    varint.append(rest)
    return bytes(varint)


@lru_cache(maxsize=1024)
def value_writer(avro_type: AvroType, read_leaf: ReadLeaf | None = None, *, is_exact: bool = False) -> WriteBytes:
    """Return the function that writes a value of the type; it raises Unfit for one that the type can't hold.

    read_leaf: makes Python's value out of one that is not null, no array, no map and no record; it may raise Unfit.
    is_exact: a record may not have other fields than the type's, which are left out otherwise.
    """
    match avro_type.kind:
        case "union":
            return _union_writer(avro_type, read_leaf, is_exact)
        case "record":
            return _record_writer(avro_type, read_leaf, is_exact)
        case "array":
            return _array_writer(avro_type, value_writer(avro_type.parts[0], read_leaf, is_exact=is_exact))
        case "map":
            return _map_writer(avro_type, value_writer(avro_type.parts[0], read_leaf, is_exact=is_exact))
    write_leaf = _leaf_writer(avro_type)
    if read_leaf is None:
        return write_leaf
    return lambda value: write_leaf(None if value is None else read_leaf(value, avro_type))


def unfit_leaf(avro_type: AvroType, value: Any) -> Unfit:
    """Return the error for a value that a type can't hold."""
    is_json = value is None or isinstance(value, bool | JsonNumber | Members)
    return unfit_value(str(avro_type), write_parsed(value) if is_json else repr(value))


def _leaf_writer(avro_type: AvroType) -> WriteBytes:
    if avro_type.logical == "decimal":
        return lambda value: _write_decimal(value, avro_type)
    if avro_type.logical == "date":
        return lambda value: _write_date(value, avro_type)
    if avro_type.logical in _MICROS:
        return lambda value: _write_timestamp(value, avro_type)
    match avro_type.kind:
        case "null":
            return lambda value: _write_null(value, avro_type)
        case "boolean":
            return lambda value: b"\x01" if _require(value, avro_type, bool) else _END
        case "float":
            return lambda value: struct.pack("<f", round_to_float32(float(_require_number(value, avro_type))))
        case "double":
            return lambda value: struct.pack("<d", float(_require_number(value, avro_type)))
        case "string":
            return lambda value: _with_length(_utf8(_require(value, avro_type, str)))
        case "bytes":
            return lambda value: _with_length(bytes(_require(value, avro_type, bytes, bytearray)))
        case "enum":
            return lambda value: _write_symbol(value, avro_type)
        case "fixed":
            return lambda value: _write_fixed(value, avro_type)
    return lambda value: _write_integer(value, avro_type)


def _require(value: Any, avro_type: AvroType, *types: type) -> Any:
    if not isinstance(value, types):
        raise unfit_leaf(avro_type, value)
    return value


def _require_number(value: Any, avro_type: AvroType) -> Any:
    if isinstance(value, bool):
        raise unfit_leaf(avro_type, value)
    return _require(value, avro_type, int, float, Decimal)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unfit("expected text in UTF-8, found half of a surrogate pair (such as \\ud800)") from error


def _with_length(data: bytes) -> bytes:
    return write_long(len(data)) + data


def _write_null(value: Any, avro_type: AvroType) -> bytes:
    if value is not None:
        raise unfit_leaf(avro_type, value)
    return b""


def _write_integer(value: Any, avro_type: AvroType) -> bytes:
    limit = 1 << (_BITS[avro_type.kind] - 1)
    number = _require_number(value, avro_type)
    if not -limit <= number < limit or number != int(number):
        raise unfit_leaf(avro_type, value)
    return write_long(int(number))


def _write_date(value: Any, avro_type: AvroType) -> bytes:
    if isinstance(value, datetime):  # Python counts it among the dates, and its time would be lost
        raise unfit_leaf(avro_type, value)
    return write_long((_require(value, avro_type, date) - _EPOCH_DATE).days)


def _write_timestamp(value: Any, avro_type: AvroType) -> bytes:
    moment = _require(value, avro_type, datetime)
    micros = to_microseconds(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    count, lost = divmod(micros, _MICROS[avro_type.logical])
    if lost:
        raise Unfit(f"expected {avro_type}, found {moment.isoformat()}: its microseconds would be lost")
    return write_long(count)


def _write_symbol(value: Any, avro_type: AvroType) -> bytes:
    if _require(value, avro_type, str) not in avro_type.symbols:
        raise unfit_value(f"{avro_type}: one of {', '.join(avro_type.symbols)}", repr(value))
    return write_long(avro_type.symbols.index(value))


def _write_fixed(value: Any, avro_type: AvroType) -> bytes:
    data = bytes(_require(value, avro_type, bytes, bytearray))
    if len(data) != avro_type.size:
        raise Unfit(f"expected {avro_type} of {avro_type.size} bytes, found {len(data)}")
    return data


def _write_decimal(value: Any, avro_type: AvroType) -> bytes:
    sign, digits, exponent = Decimal(_require(_require_number(value, avro_type), avro_type, int, Decimal)).as_tuple()
    own_digits = "".join(map(str, digits)).rstrip("0")  # 1.500 fits where 1.5 does
    zeros = int(exponent) + avro_type.scale + len(digits) - len(own_digits) if isinstance(exponent, int) else -1
    if own_digits == "" and isinstance(exponent, int):
        zeros = 0
    unscaled = int(own_digits or "0")
    if zeros < 0 or zeros > avro_type.precision or unscaled * 10**zeros >= 10**avro_type.precision:
        raise unfit_value(str(avro_type), str(value))
    number = (-1 if sign else 1) * unscaled * 10**zeros
    size = (number + (number < 0)).bit_length() // 8 + 1
    if avro_type.kind == "bytes":
        return _with_length(number.to_bytes(size, "big", signed=True))
    if size > avro_type.size:
        raise Unfit(f"expected {avro_type} in {avro_type.size} bytes, found {value}, which needs {size}")
    data: bytes = number.to_bytes(avro_type.size, "big", signed=True)
    return data


def _union_writer(avro_type: AvroType, read_leaf: ReadLeaf | None, is_exact: bool) -> WriteBytes:
    # Of several records the first would take the fields of all others, and drop them.
    is_exact = is_exact or len(avro_type.branches) > 1
    writers = [
        (write_long(index), value_writer(part, read_leaf, is_exact=is_exact))
        for index, part in enumerate(avro_type.parts)
        if part.kind != "null"
    ]
    null = write_long([part.kind for part in avro_type.parts].index("null")) if avro_type.may_be_null else None

    def write(value: Any) -> bytes:
        if value is None and null is not None:
            return null
        reasons = []
        for prefix, write_value in writers:
            try:
                return prefix + write_value(value)
            except Unfit as error:
                reasons.append(str(error))
        if not reasons:
            raise unfit_leaf(avro_type, value)
        raise Unfit("; or ".join(reasons))

    return write


def _members(value: Any, avro_type: AvroType) -> Mapping[Any, Any]:
    if isinstance(value, Members):
        return dict(value)
    if not isinstance(value, Mapping):
        raise unfit_leaf(avro_type, value)
    return value


def _record_writer(avro_type: AvroType, read_leaf: ReadLeaf | None, is_exact: bool) -> WriteBytes:
    writers = [
        (name, value_writer(part, read_leaf, is_exact=is_exact))
        for name, part in zip(avro_type.fields, avro_type.parts, strict=True)
    ]

    def write(value: Any) -> bytes:
        row = _members(value, avro_type)
        if is_exact and (other_names := [str(name) for name in row if name not in avro_type.fields]):
            raise Unfit(f"field {other_names[0]}: {avro_type} has no such field; it has {', '.join(avro_type.fields)}")
        chunks = []
        for name, write_part in writers:
            try:
                chunks.append(write_part(row.get(name)))
            except Unfit as error:
                raise Unfit(f"field {name}: {error}") from error
        return b"".join(chunks)

    return write


def _array_writer(avro_type: AvroType, write_item: WriteBytes) -> WriteBytes:
    def write(items: Any) -> bytes:
        if not isinstance(items, list | tuple) or isinstance(items, Members):
            raise unfit_leaf(avro_type, items)
        return b"".join((write_long(len(items)), *map(write_item, items), _END)) if items else _END

    return write


def _map_writer(avro_type: AvroType, write_item: WriteBytes) -> WriteBytes:
    def write(value: Any) -> bytes:
        entries = _members(value, avro_type).items()
        if not all(isinstance(key, str) for key, _ in entries):
            raise Unfit(f"expected {avro_type} with texts as keys, found other ones")
        entry_bytes = (_with_length(_utf8(key)) + write_item(item) for key, item in entries)
        return b"".join((write_long(len(entries)), *entry_bytes, _END)) if entries else _END

    return write
