"""A hint, in the reason for a bad key, at the formats that could read it: a wrong `key_format` is a common mistake."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.expression.schema import Column, base_type
from lakehouse.plan.names.format_traits import KEY_FORMATS, traits_of
from lakehouse.plan.names.record_format import parse_format

DecodeKey = Callable[[str, tuple[Column, ...], bytes], dict[str, Any] | None]


def other_formats_hint(format: str, columns: tuple[Column, ...], data: bytes, decode: DecodeKey) -> str:
    """Return a hint that begins with ";", or "" if no other format reads the key. decode: decodes a key in a format."""
    kind = parse_format(format).kind
    own_names = {name for name in KEY_FORMATS if kind in _kinds_of(name)}
    rows_by_format: dict[str, dict[str, Any]] = {}
    for other_format in _candidate_formats(columns, data):
        if other_format in own_names:
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


def _kinds_of(name: str) -> set[str]:
    """Return the kinds in which a declared format is read: in Python and in SQL, compared with schemas or not."""
    kinds = {name, traits_of(name).any_case, traits_of(name).bare}
    return kinds | {traits_of(kind).validated for kind in kinds}


def _candidate_formats(columns: tuple[Column, ...], data: bytes) -> list[str]:
    """Return the formats in which the producer may have meant to write these bytes.

    None that needs a schema: there is none here, and the columns' own would fit bytes of other formats by chance.
    """
    type_names = [base_type(column.type) for column in columns]
    traits = [traits_of(name) for name in KEY_FORMATS]
    codecs = [codec_of(each.name) for each in traits if not each.needs_schema and each.holds(type_names)]
    if data.lstrip()[:1] in (b"{", b"["):  # only JSON begins like this
        codecs = [codec for codec in codecs if codec.format.is_json]
    return [str(codec.format) for codec in codecs if codec.may_be_meant(data, columns)]
