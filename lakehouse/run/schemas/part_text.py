"""The text of a record's key or value as its bytes tell it, without columns that somebody declares.

| format                    | text                                                                               |
|---------------------------|------------------------------------------------------------------------------------|
| json, json_sr             | the JSON itself, behind a registry's prefix for json_sr                            |
| avro, protobuf            | JSON of all fields that the writer gave the record, by the writer's schema         |
| protobuf_nosr             | the same, by the schema that a declaration has                                     |
| string                    | UTF-8                                                                              |
| int, bigint, double       | the number, as Kafka's serializers write it                                        |
| bytes                     | the bytes, all but letters, digits and signs of ASCII escaped: \\x00\\x07            |
| "" (guessed)              | as the schema behind a registry's prefix, else JSON or text without controls, or bytes |
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from lakehouse.errors import PlanError, RegistryUnavailable
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.primitive import decode_primitive
from lakehouse.formats.codec.protobuf_codec import own_schema
from lakehouse.formats.codec.registered import PREFIX_LENGTH, WriterSchemas, require_schema_id, schema_id
from lakehouse.formats.protobuf.proto_indexes import read_indexes
from lakehouse.formats.protobuf.proto_json import read_json
from lakehouse.formats.values.json_text import parse_value
from lakehouse.formats.values.json_validation import JSON_KIND, refuse_constant
from lakehouse.formats.values.json_value import encode_bare_value, encode_object
from lakehouse.formats.values.unfit import Unfit, decode_utf8
from lakehouse.plan.avro.schema_text import schema_text, type_of_avro
from lakehouse.plan.expression.schema import Column, base_type, fields_of, parse_schema
from lakehouse.plan.names.format_traits import FormatTraits
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.names.schema_options import SchemaOptions
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

GUESSED = ""
JSON, JSON_SR, AVRO, PROTOBUF, STRING, BYTES = "json", "json_sr", "avro", "protobuf", "string", "bytes"
PROTOBUF_NOSR = "protobuf_nosr"
NUMBERS = ("int", "bigint", "double")
TEXT_FORMATS = (JSON, JSON_SR, AVRO, PROTOBUF, STRING, *NUMBERS, BYTES)
LookUp = Callable[[int], WriterSchema | None]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LINE_BREAKS = re.compile(r"[\r\n\t]+")
_SUBJECT = "its writer's schema"
_ALONE = "value"


@dataclass(frozen=True, slots=True)
class PartText:
    """The text of a key or a value. format: in which it was read; BYTES if it could not be, with the reason."""

    text: str
    format: str
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the text is valid JSON, in one line."""
        return self.format in (JSON, JSON_SR, AVRO, PROTOBUF, PROTOBUF_NOSR, *NUMBERS)


def shown_format(format: RecordFormat, columns: tuple[Column, ...]) -> str:
    """Return the format in which a declared key or value shows itself: with its schema, if it has one of its own."""
    if not format.traits.has_own_schema:
        return text_format(format.traits, columns)
    own_columns = fields_of(columns) if format.is_named else tuple(column.in_topic for column in columns)
    schema = base64.b64encode(own_schema(format, own_columns).files).decode()
    return str(RecordFormat(PROTOBUF_NOSR, options=str(SchemaOptions(schema=schema))))


def text_format(traits: FormatTraits, columns: tuple[Column, ...]) -> str:
    """Return the format in which a key or a value of a kind shows itself."""
    if traits.is_json:
        return JSON_SR if traits.is_registered else JSON
    if traits.reads_by_schema:
        return traits.language.lower()
    if traits.is_absent or not columns:
        return GUESSED
    own_type = base_type(columns[0].type) if traits.is_single else STRING
    return own_type if own_type in NUMBERS else BYTES if own_type == "binary" else STRING


def part_text(format: str, data: bytes, look_up: LookUp) -> PartText:
    """Return the text of a key or a value in one of TEXT_FORMATS, or in the one that its bytes suggest (GUESSED).

    look_up: gives a writer's schema by its id. Raises RegistryUnavailable if it does; while guessing, that is a reason.
    """
    if format == GUESSED:
        return _guessed_text(data, look_up)
    shown_name = format.partition("?")[0]
    try:
        return PartText(_text_in(format, data, look_up), shown_name)
    except (Unfit, PlanError) as error:
        return PartText(_escape_bytes(data), BYTES, f"not {shown_name}: {error}")


def _guessed_text(data: bytes, look_up: LookUp) -> PartText:
    candidates = (JSON, STRING) if (id := schema_id(data)) is None else _registered_formats(id, look_up)
    reason = ""
    for format in candidates:
        try:
            text = _text_in(format, data, look_up)
        except (Unfit, PlanError, RegistryUnavailable) as error:
            reason = "" if format in (JSON, STRING) else f"not {format}: {error}"
            continue
        if format != STRING or not _CONTROL.search(text):
            return PartText(text, format)
    return PartText(_escape_bytes(data), BYTES, reason)


def _registered_formats(id: int, look_up: LookUp) -> tuple[str, ...]:
    """Return the formats that bytes behind a registry's prefix may have: one if the schema's kind is known.

    The bytes alone do not tell: an Avro long of one byte, 0x31, and the JSON text 1 are the same.
    """
    with suppress(RegistryUnavailable):
        if (schema := look_up(id)) is not None:
            return {JSON_KIND: (JSON_SR,), PROTOBUF_KIND: (PROTOBUF,)}.get(schema.kind, (AVRO,))
    return JSON_SR, AVRO


def _text_in(format: str, data: bytes, look_up: LookUp) -> str:
    """Return the text of bytes in a format. Raises Unfit, PlanError for a schema that is not read, and as look_up."""
    match format:
        case "json":
            return _json_line(data)
        case "json_sr":
            require_schema_id(data)
            return _json_line(data[PREFIX_LENGTH:])
        case "avro":
            return _avro_as_json(data, look_up)
        case "protobuf":
            return _message_as_json(data, look_up)
        case own if own.startswith(PROTOBUF_NOSR):
            schema = own_schema(parse_format(own), ())
            return json.dumps(read_json(schema, schema.tops[0], data), ensure_ascii=False)
        case "string":
            return decode_utf8(data)
        case "bytes":
            return _escape_bytes(data)
    row = decode_primitive(data, (Column(_ALONE, format),))
    return encode_bare_value(row or {}, (Column(_ALONE, format),)).decode()


def _json_line(data: bytes) -> str:
    """Return a JSON text as it is, without line breaks, which stand only between its parts. Raises Unfit."""
    text = decode_utf8(data)
    parse_value(text)
    if "NaN" in text or "Infinity" in text:  # some programs write them, and then others can't read the text
        json.loads(text, parse_constant=refuse_constant, parse_int=str)
    return _LINE_BREAKS.sub(" ", text).strip()


def _avro_as_json(data: bytes, look_up: LookUp) -> str:
    """Return a value in Avro as JSON, with all the fields that its writer gave it. Raises Unfit, PlanError."""
    id, schema = _writer_schema_of(data, look_up)
    return _avro_writer(id, schema)(data)


def _writer_schema_of(data: bytes, look_up: LookUp) -> tuple[int, WriterSchema]:
    id = require_schema_id(data)
    schema = look_up(id)
    if schema is None:
        raise Unfit(f"the registry has no schema {id}")
    return id, schema


def _message_as_json(data: bytes, look_up: LookUp) -> str:
    """Return a value in Protobuf as JSON, with all the fields that its writer gave it. Raises Unfit."""
    id, schema = _writer_schema_of(data, look_up)
    try:
        indexes, place = read_indexes(data, PREFIX_LENGTH)
        message = schema.proto_schema.message(indexes)
        return json.dumps(read_json(schema.proto_schema, message.name, data[place:]), ensure_ascii=False)
    except UnfitSchema as error:
        raise Unfit(f"schema {id}: {error}") from error


@lru_cache(maxsize=256)
def _avro_writer(id: int, schema: WriterSchema) -> Callable[[bytes], str]:
    """Return the function that writes values of a schema as JSON. Raises Unfit, PlanError."""
    try:
        avro_type = schema.avro_type
    except UnfitSchema as error:
        raise Unfit(f"schema {id}: {error}") from error
    codec, encode = codec_of(AVRO).with_schemas(WriterSchemas({id: schema})), encode_bare_value
    if avro_type.kind == "record":
        encode = encode_object
        columns = tuple(column.in_topic for column in parse_schema(schema_text(avro_type, _SUBJECT), _SUBJECT))
    else:
        columns = (Column(_ALONE, type_of_avro(avro_type, _SUBJECT)),)
    return lambda data: encode(codec.decode(data, columns) or {}, columns).decode()


def _escape_bytes(data: bytes) -> str:
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")
