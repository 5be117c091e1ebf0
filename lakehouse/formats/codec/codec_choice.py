"""The codec of a format, by the format's name: a class for each kind of format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakehouse.formats.codec.avro_codec import AvroBareCodec, AvroCodec
from lakehouse.formats.codec.codec import Codec, Row
from lakehouse.formats.codec.debezium import DebeziumCodec
from lakehouse.formats.codec.debezium_avro import DebeziumAvroCodec
from lakehouse.formats.codec.delimited import DelimitedCodec
from lakehouse.formats.codec.json_codec import ConnectJsonCodec, JsonAnyCaseCodec, JsonBareCodec, JsonCodec
from lakehouse.formats.codec.json_registered import (
    JsonRegisteredCodec,
    JsonValidatedCodec,
)
from lakehouse.formats.codec.primitive import PrimitiveCodec
from lakehouse.formats.codec.protobuf_codec import ProtobufCodec, ProtobufPlainCodec
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.unfit import decode_utf8
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import parse_format


@dataclass(frozen=True, slots=True)
class AbsentCodec(Codec):
    """Bytes that nobody reads: a null, and any text where people write them."""

    def decode(self, data: bytes, columns: tuple[Column, ...]) -> Row | None:
        return None

    def encode(self, row: Row, columns: tuple[Column, ...]) -> bytes | None:
        return None

    def key_text(self, written_key: Any) -> str | None:
        return written_key if isinstance(written_key, str) else write_json(written_key)

    def write_key(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return decode_utf8(data)

    def write_value(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        return decode_utf8(data)


CODECS: dict[str, type[Codec]] = {
    "json": JsonCodec,
    "json_any_case": JsonAnyCaseCodec,
    "json_bare": JsonBareCodec,
    "delimited": DelimitedCodec,
    "kafka": PrimitiveCodec,
    "debezium": DebeziumCodec,
    "debezium_avro": DebeziumAvroCodec,
    "avro": AvroCodec,
    "avro_any_case": AvroCodec,
    "avro_bare": AvroBareCodec,
    "json_sr": JsonRegisteredCodec,
    "json_sr_valid": JsonValidatedCodec,
    "json_sr_any_case": JsonRegisteredCodec,
    "json_sr_any_case_valid": JsonValidatedCodec,
    "json_sr_bare": JsonRegisteredCodec,
    "json_sr_bare_valid": JsonValidatedCodec,
    "connect_json": ConnectJsonCodec,
    "protobuf": ProtobufCodec,
    "protobuf_any_case": ProtobufCodec,
    "protobuf_nosr": ProtobufPlainCodec,
    "protobuf_nosr_any_case": ProtobufPlainCodec,
    "none": AbsentCodec,
}


@lru_cache(maxsize=1024)  # each record that is decoded asks
def codec_of(name: str) -> Codec:
    """Return the codec of a format by its name, as declarations and lakes have it."""
    format = parse_format(name)
    return CODECS[format.kind](format)
