"""Protobuf's own JSON to the bytes of a message, and back. Source: https://protobuf.dev/programming-guides/json/.

It is read and written by Google's library: a timestamp is ISO text, bytes are base64, an enum is its name, a field that
is left out has its default.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.protobuf.proto_schema import ProtoSchema


def write_json_text(schema: ProtoSchema, name: str, text: str) -> bytes:
    """Return the bytes of a message, by its full name, that is given in JSON. Raises Unfit."""
    from google.protobuf import json_format

    message = message_class(schema, name)()
    try:
        json_format.Parse(text, message)
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise Unfit(f"message {name}: {clip_text(str(error), 200)}") from error
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def read_json(schema: ProtoSchema, name: str, data: bytes) -> Any:
    """Return a message, with all the fields that its writer gave it, as JSON's values. Raises Unfit."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    try:
        message = message_class(schema, name).FromString(data)
        return json.loads(json_format.MessageToJson(message, preserving_proto_field_name=True))
    except (DecodeError, json_format.SerializeToJsonError, ValueError, TypeError) as error:
        raise Unfit(f"message {name}: {clip_text(str(error), 200)}") from error


@lru_cache(maxsize=256)
def message_class(schema: ProtoSchema, name: str) -> Any:
    """Return the class of a message, by its full name, with all its fields."""
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.files).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
