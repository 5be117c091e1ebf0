"""Keys that name a window, as Kafka Streams writes them: the key's own bytes, then the window's bounds.

| window            | after the key                                    | name of the format      |
|-------------------|--------------------------------------------------|-------------------------|
| tumbling, hopping | its start: 8 bytes, big endian, milliseconds     | "kafka+window30000"     |
| session           | its end, then its start                          | "kafka+session"         |
"""

from __future__ import annotations

import struct

from lakehouse.semantics.time.window import Hopping, Session, Span, Window

_BOUND, _BOUNDS = struct.Struct(">q"), struct.Struct(">qq")


def split_windowed_key(data: bytes, window: Window) -> tuple[bytes, Span] | None:
    """Return a key's own bytes and its window; None if there are too few bytes."""
    bounds = _BOUNDS if isinstance(window, Session) else _BOUND
    if len(data) < bounds.size:
        return None
    own_bytes, (last_bound, *first_bounds) = data[: -bounds.size], bounds.unpack(data[-bounds.size :])
    if isinstance(window, Hopping):
        return own_bytes, Span(last_bound, last_bound + window.size)
    return own_bytes, Span(first_bounds[0], last_bound)


def with_window(own_bytes: bytes, window: Window, span: Span) -> bytes:
    """Return the bytes of a key with its window."""
    return own_bytes + (_BOUNDS.pack(span.end, span.start) if isinstance(window, Session) else _BOUND.pack(span.start))
