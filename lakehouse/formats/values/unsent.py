"""The forms of Debezium's placeholder, which stands for a value that was not sent (TOAST), by types of columns.

| the database's column   | the placeholder                                                                |
|-------------------------|--------------------------------------------------------------------------------|
| a text; bytes           | its text; its bytes                                                            |
| hstore                  | a map of its text to its text, or the JSON of it as a text (hstore.handling.mode) |
| text[], uuid[], bytea[] | an array of one: its text, the UUID of its bytes, its bytes                    |
| other arrays            | each of its bytes as a number, a moment or a decimal, as the array has them    |

An array of booleans is taken as it is: its placeholder would be an array of `true` alone.

Source: UnchangedToastedPlaceholder and handleUnknownData in Debezium's connector for PostgreSQL.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lakehouse.formats.values.json_text import JsonNumber, Members, write_json
from lakehouse.formats.values.text_value import INTEGER_BITS, precision_and_scale
from lakehouse.plan.expression.schema import base_type, item_type
from lakehouse.plan.names.debezium_options import placeholder_bytes
from lakehouse.semantics.epoch_time import EPOCH


@lru_cache(maxsize=64)
def placeholder_texts(unavailable: str) -> frozenset[str]:
    """Return the texts in JSON that stand for a text, for bytes, or for an hstore, that were not sent."""
    data, text = placeholder_bytes(unavailable), _placeholder_text(unavailable)
    base64_texts = (_base64(data), base64.urlsafe_b64encode(data).decode())
    return frozenset((text, _hstore_json(text), *base64_texts, data.hex()))


@lru_cache(maxsize=64)
def placeholder_lists(unavailable: str) -> tuple[Any, ...]:
    """Return the arrays and objects of parsed JSON that stand for an array, or for an hstore, that was not sent."""
    data, text = placeholder_bytes(unavailable), _placeholder_text(unavailable)
    whole_numbers = [JsonNumber(str(number)) for number in _numbers(data)]
    doubles = [JsonNumber(f"{number}.0") for number in _numbers(data)]
    decimals = [_base64(bytes([byte])) for byte in data]
    variable_decimals = [Members([("scale", JsonNumber("0")), ("value", decimal)]) for decimal in decimals]
    alone = [[text], [_base64(data)], [_name_uuid(data)]]
    return (*alone, whole_numbers, doubles, decimals, variable_decimals, Members([(text, text)]))


@lru_cache(maxsize=1024)
def unsent_values(declared_type: str, unavailable: str) -> tuple[Any, ...]:
    """Return the values of a declared type, as a row has them, that stand for one that was not sent."""
    data, text = placeholder_bytes(unavailable), _placeholder_text(unavailable)
    match base_type(declared_type):
        case "string":
            return (text, _hstore_json(text))
        case "binary":
            return (data,)
        case "map" if base_type(item_type(declared_type)) == "string":
            return ({text: text},)
        case "array":
            return tuple(_unsent_arrays(item_type(declared_type), data, text))
    return ()


def _unsent_arrays(declared_item: str, data: bytes, text: str) -> list[list[Any]]:
    base_name, numbers = base_type(declared_item), _numbers(data)
    if base_name in INTEGER_BITS:
        return [numbers]
    match base_name:
        case "string":
            return [[text], [_name_uuid(data)]]
        case "binary":
            return [[data]]
        case "float" | "double":
            return [list(map(float, numbers))]
        case "date":
            return [[EPOCH.date() + timedelta(days=number) for number in numbers]]
        case "timestamp":
            return [
                [EPOCH + timedelta(microseconds=number * unit) for number in numbers] for unit in (1, 1000)
            ]  # the writer's unit is not known here
        case "decimal":
            precision, scale = precision_and_scale(declared_item)
            arrays = ([Decimal(number).scaleb(-own_scale) for number in numbers] for own_scale in range(scale + 1))
            limit = 10 ** (precision - scale)
            return [array for array in arrays if all(abs(item) < limit for item in array)]
    return []


def _placeholder_text(unavailable: str) -> str:
    return placeholder_bytes(unavailable).decode("utf-8", "replace")


def _numbers(data: bytes) -> list[int]:
    """Return bytes as the numbers that they are in Java."""
    return [byte - 256 if byte > 127 else byte for byte in data]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _name_uuid(data: bytes) -> str:
    return str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))


def _hstore_json(text: str) -> str:
    return write_json({text: text})
