"""What the reason for a bad key says of the formats that would read it: a wrong `key_format` is a common mistake."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakehouse.formats.json_text import write
from lakehouse.formats.unfit import Unfit, clipped
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type

Decode = Callable[[str, tuple[Column, ...], bytes], dict[str, Any] | None]
KAFKA_NUMBERS = ("int", "bigint", "double")
KAFKA_TYPES = ("string", "binary", *KAFKA_NUMBERS)


def other_formats(format: str, columns: tuple[Column, ...], data: bytes, decode: Decode) -> str:
    """Return a hint that begins with ";"; nothing if no other format reads the key. decode: reads one in a format."""
    rows: dict[str, dict[str, Any]] = {}
    for other in _candidates(columns, data):
        if format.startswith(other):
            continue
        with suppress(Unfit):
            if (row := decode(other, columns, data)) is not None:
                rows[other] = row
    if not rows:
        return ""
    first = next(iter(rows.values()))
    return f"; as {' or '.join(rows)} (key_format) it is {clipped(', '.join(map(write, first.values())))}"


def _candidates(columns: tuple[Column, ...], data: bytes) -> list[str]:
    """The formats that may have been meant by whoever wrote these bytes."""
    kinds = [base_type(column.type) for column in columns]
    if data.lstrip()[:1] in (b"{", b"["):  # meant as JSON, and as nothing else
        return ["json"]
    # Eight letters are a bigint, too, but were not meant as one.
    is_text = data.isascii() and data.decode("ascii").isprintable()
    formats = ["kafka"] if len(kinds) == 1 and kinds[0] in KAFKA_TYPES else []
    if formats and kinds[0] in KAFKA_NUMBERS and is_text:
        formats = []
    return [*formats, "json", *(() if any(kind in NESTED_TYPES for kind in kinds) else ("delimited",))]
