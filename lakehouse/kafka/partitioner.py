"""The partition that Java's producer chooses for a key: murmur2 of its bytes.

confluent-kafka applies murmur2 only to whole keys. A windowed table's changelog goes to the partition of the key
without its window, as with Kafka Streams' `WindowedStreamPartitioner`, so that a key's windows stay together and in
order.
"""

from __future__ import annotations

_SEED, _M, _R, _MASK = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


def murmur2_hash(data: bytes) -> int:
    """Return the 32-bit hash of `org.apache.kafka.common.utils.Utils.murmur2`, as an unsigned number."""
    length = len(data)
    hash_bits = (_SEED ^ length) & _MASK
    for word_start in range(0, length - length % 4, 4):
        word = int.from_bytes(data[word_start : word_start + 4], "little") * _M & _MASK
        word = (word ^ (word >> _R)) * _M & _MASK
        hash_bits = hash_bits * _M & _MASK ^ word
    rest_bytes = data[length - length % 4 :]
    if rest_bytes:
        hash_bits = (hash_bits ^ int.from_bytes(rest_bytes, "little")) * _M & _MASK
    hash_bits = (hash_bits ^ (hash_bits >> 13)) * _M & _MASK
    return hash_bits ^ (hash_bits >> 15)


def choose_partition(place: bytes | int, partition_count: int) -> int:
    """Return the partition for a key's bytes, or for the number of a custom partitioner (modulo the partitions)."""
    return (place if isinstance(place, int) else murmur2_hash(place) & 0x7FFFFFFF) % partition_count
