"""A JSON text, as people type it, to Avro's bytes under a given schema.

| Avro                                     | JSON                                                                    |
|------------------------------------------|-------------------------------------------------------------------------|
| a union                                  | the value alone: the first branch that can hold it is the one           |
| int, long, also times and nanoseconds    | a whole number in the type's range                                      |
| float, double                            | a number; "NaN", "Infinity", "-Infinity"                                |
| decimal                                  | a number, or its text; it has no more digits than the type              |
| date; timestamp-millis, timestamp-micros | ISO text: "2026-01-31"; "2026-01-31T12:00:00Z", in UTC without a zone   |
| string, enum, uuid                       | a text                                                                  |
| bytes, fixed                             | base64                                                                  |
| record; map; array                       | an object; an object; an array. A field that is left out is null        |

A value that would lose something does not fit (but a float or a double gets the nearest number), and neither does a
field that a record does not have.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakehouse.formats.avro.avro_writer import unfit_leaf, value_writer
from lakehouse.formats.values.json_text import JsonNumber, parse_value
from lakehouse.formats.values.text_value import NOT_FINITE, round_to_float32
from lakehouse.formats.values.unfit import Unfit, check_number_length
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.semantics.number_text import NUMBER, exact_decimal
from lakehouse.semantics.time import iso_text

_WHOLE = re.compile(r"-?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(_DATE.pattern + r"(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?")
_BELOW_MICROSECONDS = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def text_writer(avro_type: AvroType) -> Callable[[str], bytes]:
    """Return the function that writes a JSON text as the type; it raises Unfit, with the field, if it does not fit."""
    write = value_writer(avro_type, _leaf_of_json, is_exact=True)
    return lambda text: write(parse_value(text))


def _leaf_of_json(value: Any, avro_type: AvroType) -> Any:
    """Return a parsed JSON value as Python's of the type. Raises Unfit for another kind of value."""
    if avro_type.logical == "decimal":
        return _decimal(value, avro_type)
    match avro_type.kind:
        case "float" | "double":
            return _double(value, avro_type)
        case "bytes" | "fixed":
            return _binary_from_json(_text_from_json(value, avro_type), avro_type)
        case "string" | "enum":
            return _text_from_json(value, avro_type)
        case "int" | "long" if avro_type.logical == "date":
            return _date_from_json(_text_from_json(value, avro_type), avro_type)
        case "int" | "long" if avro_type.logical in ("timestamp-millis", "timestamp-micros"):
            return _timestamp_from_json(_text_from_json(value, avro_type), avro_type)
        case "int" | "long":
            if not isinstance(value, JsonNumber) or not _WHOLE.fullmatch(value):
                raise unfit_leaf(avro_type, value)
            return int(value)
    return value


def _text_from_json(value: Any, avro_type: AvroType) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise unfit_leaf(avro_type, value)
    return value


def _decimal(value: Any, avro_type: AvroType) -> Decimal:
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        raise unfit_leaf(avro_type, value)
    check_number_length(value)
    return exact_decimal(value)


def _double(value: Any, avro_type: AvroType) -> float:
    if isinstance(value, JsonNumber):
        number = float(value)
        if math.isinf(round_to_float32(number) if avro_type.kind == "float" else number):
            raise unfit_leaf(avro_type, value)
        return number
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    raise unfit_leaf(avro_type, value)


def _binary_from_json(text: str, avro_type: AvroType) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unfit(f"{unfit_leaf(avro_type, text)}; bytes are written in base64") from error


def _date_from_json(text: str, avro_type: AvroType) -> date:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise Unfit(f'{unfit_leaf(avro_type, text)}; a date is written as "2026-01-31"')


def _timestamp_from_json(text: str, avro_type: AvroType) -> datetime:
    own_form = iso_text.normal_form(text)
    try:
        if not _MOMENT.fullmatch(own_form):
            raise ValueError(own_form)
        moment = datetime.fromisoformat(own_form)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Unfit(f'{unfit_leaf(avro_type, text)}; a moment is written as "2026-01-31T12:00:00Z"') from None
    if _BELOW_MICROSECONDS.search(text):
        raise Unfit(f"{unfit_leaf(avro_type, text)}; it is finer than microseconds")
    return moment
