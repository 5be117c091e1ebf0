"""The partition in which Java's producer puts a key: murmur2 of its bytes. confluent-kafka only applies it to keys.

A windowed table's changelog needs it: its records go to the partition of the key without the window, as with Kafka
Streams' `WindowedStreamPartitioner`, so that a key's windows stay together and in order.
"""

from __future__ import annotations

_SEED, _M, _R, _MASK = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of `org.apache.kafka.common.utils.Utils.murmur2`, as an unsigned number."""
    length = len(data)
    found = (_SEED ^ length) & _MASK
    for start in range(0, length - length % 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ (k >> _R)) * _M & _MASK
        found = found * _M & _MASK ^ k
    rest = data[length - length % 4 :]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * _M & _MASK
    found = (found ^ (found >> 13)) * _M & _MASK
    return found ^ (found >> 15)


def partition(place: bytes | int, partitions: int) -> int:
    """Return the partition of a key's bytes, or of a number that a custom partitioner gave (modulo the partitions)."""
    return (place if isinstance(place, int) else murmur2(place) & 0x7FFFFFFF) % partitions
