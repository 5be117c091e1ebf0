"""The indexes that say which message of a file a record is; they stand between the schema's id and the message.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format.
A list of numbers as zigzag varints, first how many they are: [1, 0] is the first message in the file's second one. The
usual list, [0], is a single byte 0.
"""

from __future__ import annotations

from lakehouse.formats.avro.avro_bytes import read_int
from lakehouse.formats.values.unfit import Unfit

FIRST = (0,)
FIRST_BYTES = b"\0"
_LENGTH_MAX = 64


def read_indexes(data: bytes, place: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes that begin at a place, and the place after them. Raises Unfit."""
    if data[place : place + 1] == FIRST_BYTES:  # nearly always
        return FIRST, place + 1
    length, place = read_int(data, place)
    if length == 0:
        return FIRST, place
    if not 0 < length <= _LENGTH_MAX:
        raise Unfit(f"expected the number of a message's indexes, found {length}")
    indexes = []
    for _ in range(length):
        index, place = read_int(data, place)
        indexes.append(index)
    return tuple(indexes), place
