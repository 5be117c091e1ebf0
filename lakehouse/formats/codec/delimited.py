"""Delimited text (CSV) to a row and back: one line, commas, double quotes.

SQL may choose another separator than the comma: it ends the format's name, as in "delimited|".

A record is one line in the columns' order. An empty field is null, so an empty string comes back as null.
A quoted field may contain commas and line ends; a quote in it is doubled. A line end at the end of the record is
ignored.
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakehouse.formats.codec.codec import Codec, Row
from lakehouse.formats.values.json_text import format_decimal, format_timestamp
from lakehouse.formats.values.text_value import text_reader
from lakehouse.formats.values.unfit import Unfit, clip_text, decode_utf8
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.java_double import java_double

# Python's csv module stops at 131,072 characters per field by default; Kafka already limits the size of a record.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True, slots=True)
class DelimitedCodec(Codec):
    """A line. People write the line itself, or the values of a key and the row of a value."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return decode_line(data, columns, self.format.separator)

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return encode_line(row, columns, self.format.separator)

    def key_text(self, written_key: Any) -> str | None:
        return written_key if isinstance(written_key, str) else None

    def value_text(self, written_value: Any) -> str | None:
        if isinstance(written_value, list | tuple):
            raise Unfit(f"found {clip_text(repr(written_value))}, expected the line, or a dict of columns")
        return None if isinstance(written_value, Mapping) else str(written_value)

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return decode_utf8(data)

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return decode_utf8(data)

    def line_spellings(self, row: Row) -> tuple[str, ...]:
        return (line_of(row, self.format.separator),)


def decode_line(data: bytes, columns: tuple[Column, ...], separator: str = ",") -> dict[str, Any] | None:
    """Return the row in a line. A line is never the null value. Raises Unfit if the fields do not fit."""
    line = decode_utf8(data).rstrip("\r\n")
    try:
        parsed_lines = list(csv.reader([line], strict=True, delimiter=separator))
    except csv.Error as error:
        raise Unfit(f"expected one line of CSV: {error}; found {clip_text(repr(line))}") from error
    fields = parsed_lines[0] if parsed_lines and parsed_lines[0] else [""]
    if len(fields) != len(columns):
        raise Unfit(f"expected {len(columns)} fields, found {len(fields)} in {clip_text(repr(line))}")
    row: dict[str, Any] = {}
    for column, text in zip(columns, fields, strict=True):
        try:
            row[column.name] = text_reader(column.type)(text) if text else None
        except Unfit as error:
            raise Unfit(f"field {column.name}: {error}") from error
    return row


def encode_line(row: dict[str, Any], columns: tuple[Column, ...], separator: str = ",") -> bytes:
    """Return a row as one line without a line end; null is an empty field."""
    field_texts = (_format_field(row.get(column.name)) for column in columns)
    return separator.join(
        _quote_where_needed(text, separator, is_first=field_number == 0)
        for field_number, text in enumerate(field_texts)
    ).encode("utf-8")


def line_of(row: Row, separator: str = ",") -> str:
    """Return a row as one line, whatever its types."""
    return encode_line(row, tuple(Column(name, "string") for name in row), separator).decode("utf-8")


def _quote_where_needed(text: str, separator: str, *, is_first: bool) -> str:
    """Return a field, quoted where it must be, and where Apache Commons CSV, the writer of ksqlDB, quotes it.

    Commons CSV quotes a field that begins like a comment or ends with a blank, and the first field of a line unless it
    begins with a letter or a digit.
    """
    if not text:
        return text
    is_odd_start = is_first and not (text[0].isascii() and text[0].isalnum())
    if (
        is_odd_start
        or text[0] <= "#"
        or text[-1] <= " "
        or any(character in text for character in (separator, '"', "\r", "\n"))
    ):
        return '"' + text.replace('"', '""') + '"'
    return text


def _format_field(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return java_double(value)
        case Decimal():
            return format_decimal(value)
        case datetime():
            return format_timestamp(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{value!r} has no delimited form")
