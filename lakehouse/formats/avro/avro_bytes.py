"""Avro's binary encoding, as Java's BinaryDecoder reads it: a function of bytes and a place gives a value and its end.

Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding. Where a writer breaks the rules, the values
are those of Java: a boolean is true if its byte is 1, a number too long for its type loses its upper bits, and a
negative length is none, where nobody reads what has it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from lakehouse.formats.values.unfit import Unfit, decode_utf8
from lakehouse.plan.avro.avro_schema import AvroType

ReadBytes = Callable[[bytes, int], tuple[Any, int]]


class BrokenBytes(Unfit):
    """The bytes are no value of their writer's type, whatever is declared. The message is the reason."""


_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def read_whole(read: ReadBytes, data: bytes, place: int) -> Any:
    """Return the value that takes all the bytes from a place. Raises Unfit."""
    value, end = read(data, place)
    if end != len(data):
        raise Unfit(f"expected the end, found {len(data) - end} more bytes")
    return value


def read_int(data: bytes, place: int) -> tuple[int, int]:
    """Return an int and the place after it. Raises Unfit."""
    return _read_varint(data, place, 32)


def read_long(data: bytes, place: int) -> tuple[int, int]:
    """Return a long and the place after it. Raises Unfit."""
    first_byte = _byte_at(data, place)
    if first_byte < 0x80:
        return (first_byte >> 1) ^ -(first_byte & 1), place + 1
    return _read_varint(data, place, 64)


def _read_varint(data: bytes, place: int, bits: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, bits + 3, 7):
        byte = _byte_at(data, place)
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= (1 << bits) - 1
            return (number >> 1) ^ -(number & 1), place
    raise BrokenBytes(f"expected a number of at most {(bits + 6) // 7} bytes, found a longer one")


def _byte_at(data: bytes, place: int) -> int:
    if place >= len(data):
        raise _end_of_bytes(1, 0)
    return data[place]


def _end_of_bytes(expected_count: int, byte_count: int) -> BrokenBytes:
    return BrokenBytes(f"the bytes end too early: expected {expected_count} more, found {byte_count}")


def _read_exactly(data: bytes, place: int, count: int) -> tuple[bytes, int]:
    end = place + count
    if end > len(data):
        raise _end_of_bytes(count, len(data) - place)
    return data[place:end], end


def read_boolean(data: bytes, place: int) -> tuple[bool, int]:
    """Return a boolean and the place after it. Raises Unfit."""
    return _byte_at(data, place) == 1, place + 1


def read_float(data: bytes, place: int) -> tuple[float, int]:
    """Return a float and the place after it. Raises Unfit."""
    own_bytes, end = _read_exactly(data, place, 4)
    return _FLOAT.unpack(own_bytes)[0], end


def read_double(data: bytes, place: int) -> tuple[float, int]:
    """Return a double and the place after it. Raises Unfit."""
    own_bytes, end = _read_exactly(data, place, 8)
    return _DOUBLE.unpack(own_bytes)[0], end


def read_bytes(data: bytes, place: int) -> tuple[bytes, int]:
    """Return bytes that have their length before them, and the place after them. Raises Unfit."""
    length, place = read_long(data, place)
    if length < 0:
        raise BrokenBytes(f"expected a length, found {length}")
    return _read_exactly(data, place, length)


def read_string(data: bytes, place: int) -> tuple[str, int]:
    """Return a string and the place after it. Raises Unfit."""
    own_bytes, place = read_bytes(data, place)
    return decode_utf8(own_bytes), place


def fixed_reader(size: int) -> ReadBytes:
    """Return the function that reads a fixed."""
    return lambda data, place: _read_exactly(data, place, size)


def read_block_count(data: bytes, place: int) -> tuple[int, int]:
    """Return how many items the next block of an array or a map has, and the place of the first; 0 ends it."""
    count, place = read_long(data, place)
    if count < 0:  # its size in bytes follows, for those who skip it
        count = -count
        _, place = read_long(data, place)
    if count > len(data) - place:  # an item has a byte at least
        raise _too_few_items(count, len(data) - place)
    return count, place


def _too_few_items(count: int, byte_count: int) -> BrokenBytes:
    return BrokenBytes(f"the bytes end too early: expected {count} items, found {byte_count} bytes")


def skip(avro_type: AvroType, data: bytes, place: int) -> int:
    """Return the place after a value that nobody reads; only what says where it ends is checked. Raises Unfit."""
    match avro_type.kind:
        case "null":
            return place
        case "boolean":
            return read_boolean(data, place)[1]
        case "int" | "enum":
            return read_int(data, place)[1]
        case "long":
            return read_long(data, place)[1]
        case "float":
            return _read_exactly(data, place, 4)[1]
        case "double":
            return _read_exactly(data, place, 8)[1]
        case "fixed":
            return _read_exactly(data, place, avro_type.size)[1]
        case "bytes" | "string":
            return _skip_bytes(data, place)
        case "union":
            index, place = read_branch_index(data, place, len(avro_type.parts))
            return skip(avro_type.parts[index], data, place)
        case "record":
            for part in avro_type.parts:
                place = skip(part, data, place)
            return place
    count, place = read_long(data, place)
    while count:
        if count < 0:  # the size of the block in bytes follows
            place = _skip_bytes(data, place)
        elif count > len(data) - place:
            raise _too_few_items(count, len(data) - place)
        for _ in range(count):
            if avro_type.kind == "map":
                place = _skip_bytes(data, place)
            place = skip(avro_type.parts[0], data, place)
        count, place = read_long(data, place)
    return place


def _skip_bytes(data: bytes, place: int) -> int:
    length, place = read_long(data, place)
    return _read_exactly(data, place, max(length, 0))[1]


def read_branch_index(data: bytes, place: int, count: int) -> tuple[int, int]:
    """Return the index of a union's branch or an enum's symbol, and the place after it. Raises Unfit."""
    index, place = read_int(data, place)
    if not 0 <= index < count:
        raise BrokenBytes(f"expected an index below {count}, found {index}")
    return index, place
