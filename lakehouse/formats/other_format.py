"""A hint, in the reason for a bad key, at the formats that could read it: a wrong `key_format` is a common mistake."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakehouse.formats.json_text import write_json
from lakehouse.formats.unfit import Unfit, clip_text
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type

DecodeKey = Callable[[str, tuple[Column, ...], bytes], dict[str, Any] | None]
KAFKA_NUMBERS = ("int", "bigint", "double")
KAFKA_TYPES = ("string", "binary", *KAFKA_NUMBERS)


def other_formats_hint(format: str, columns: tuple[Column, ...], data: bytes, decode: DecodeKey) -> str:
    """Return a hint that begins with ";", or "" if no other format reads the key. decode: decodes a key in a format."""
    rows_by_format: dict[str, dict[str, Any]] = {}
    for other_format in _candidate_formats(columns, data):
        if format.startswith(other_format):
            continue
        with suppress(Unfit):
            if (row := decode(other_format, columns, data)) is not None:
                rows_by_format[other_format] = row
    if not rows_by_format:
        return ""
    first_row = next(iter(rows_by_format.values()))
    return (
        f"; as {' or '.join(rows_by_format)} (key_format) it is "
        f"{clip_text(', '.join(map(write_json, first_row.values())))}"
    )


def _candidate_formats(columns: tuple[Column, ...], data: bytes) -> list[str]:
    """Return the formats in which the producer may have meant to write these bytes."""
    type_names = [base_type(column.type) for column in columns]
    if data.lstrip()[:1] in (b"{", b"["):  # only JSON begins like this
        return ["json"]
    # Eight letters could also be a bigint, but their producer meant a string.
    is_text = data.isascii() and data.decode("ascii").isprintable()
    formats = ["kafka"] if len(type_names) == 1 and type_names[0] in KAFKA_TYPES else []
    if formats and type_names[0] in KAFKA_NUMBERS and is_text:
        formats = []
    return [*formats, "json", *(() if any(kind in NESTED_TYPES for kind in type_names) else ("delimited",))]
