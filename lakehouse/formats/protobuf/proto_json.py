"""Protobuf's own JSON to the bytes of a message, and back. Source: https://protobuf.dev/programming-guides/json/.

It is read and written by Google's library: a timestamp is ISO text, bytes are base64, an enum is its name, a field that
is left out has its default.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.protobuf.proto_schema import CONFLUENT_DECIMAL, DECIMAL, MessageType, ProtoField, ProtoSchema


def write_json_text(schema: ProtoSchema, name: str, text: str) -> bytes:
    """Return the bytes of a message, by its full name, that is given in JSON. Raises Unfit."""
    from google.protobuf import json_format

    message = _message_class(schema, name)()
    try:
        json_format.Parse(text, message)
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise Unfit(f"message {name}: {clip_text(str(error), 200)}") from error
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def row_as_json(schema: ProtoSchema, row: Mapping[str, Any], *, ignores_case: bool) -> str:
    """Return a row of columns as the JSON of a schema's first message. Raises Unfit for a value that it can't hold."""
    return json.dumps(_RowValues(schema, ignores_case).of_message(schema.message(), row))


@dataclass(frozen=True, slots=True)
class _RowValues:
    """The values of columns as Protobuf's JSON has them. ignores_case: names of fields may be in another case."""

    schema: ProtoSchema
    ignores_case: bool

    def of_message(self, message: MessageType, row: Mapping[str, Any]) -> dict[str, Any]:
        names = {name.lower(): name for name in row} if self.ignores_case else {}
        values = ((field, row.get(names.get(field.name.lower(), field.name))) for field in message.fields)
        return {field.name: self._of_field(field, value) for field, value in values if value is not None}

    def _of_field(self, field: ProtoField, value: Any) -> Any:
        if (entry := self.schema.map_entry(field)) is not None:
            items = [(item["key"], item["value"]) for item in value] if isinstance(value, list) else dict(value).items()
            return {key: self._single(entry.fields[1], item) for key, item in items}
        return [self._single(field, item) for item in value] if field.is_repeated else self._single(field, value)

    def _single(self, field: ProtoField, value: Any) -> Any:
        match value:
            case None:
                raise Unfit(f"field {field.name}: found a null in an array or a map, which Protobuf can't hold")
            case bytes():
                return base64.b64encode(value).decode()
            case datetime():
                return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
            case date():
                return {"year": value.year, "month": value.month, "day": value.day}
            case float() if not math.isfinite(value):
                return str(value).replace("inf", "Infinity").replace("nan", "NaN")
            case Decimal() if field.type_name == CONFLUENT_DECIMAL:
                _, digits, exponent = value.as_tuple()
                scale = max(-int(exponent), 0)
                unscaled = int(value.scaleb(scale, Context(prec=100)))
                data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
                return {"value": base64.b64encode(data).decode(), "precision": len(digits), "scale": scale}
            case Decimal():
                return {"value": f"{value:f}"} if field.type_name == DECIMAL else f"{value:f}"
            case Mapping():
                return self.of_message(self.schema.message_of(field), value)
        return value


def read_json(schema: ProtoSchema, name: str, data: bytes) -> Any:
    """Return a message, with all the fields that its writer gave it, as JSON's values. Raises Unfit."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    try:
        message = _message_class(schema, name).FromString(data)
        return json.loads(json_format.MessageToJson(message, preserving_proto_field_name=True))
    except (DecodeError, json_format.SerializeToJsonError, ValueError, TypeError) as error:
        raise Unfit(f"message {name}: {clip_text(str(error), 200)}") from error


@lru_cache(maxsize=256)
def _message_class(schema: ProtoSchema, name: str) -> Any:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.files).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
