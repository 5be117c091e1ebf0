"""The columns that a message has, as the record of Avro that has the same ones.

| Protobuf                                 | Avro                                                              |
|------------------------------------------|-------------------------------------------------------------------|
| int32, sint32, sfixed32; the 64s, uint32 | int; long                                                         |
| uint64, fixed64                          | decimal(20, 0)                                                    |
| float, double, bool, string, bytes       | float, double, boolean, string, bytes                             |
| enum                                     | enum                                                              |
| google.protobuf.Timestamp                | timestamp-micros                                                  |
| google.type.Date                         | date                                                              |
| google.protobuf.Int32Value and the like  | the type in it                                                    |
| another message; repeated; a map         | record; array; map                                                |
"""

from __future__ import annotations

from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.protobuf.proto_schema import (
    CONFLUENT_DECIMAL,
    DATE,
    DECIMAL,
    INTEGER_DIGITS,
    TIMESTAMP,
    UNSIGNED,
    WRAPPERS,
    MessageType,
    ProtoField,
    ProtoSchema,
)
from lakehouse.plan.refused.unfit_schema import UnfitSchema

_PLAIN = {"float": "float", "double": "double", "bool": "boolean", "string": "string", "bytes": "bytes"}
_WELL_KNOWN = {
    TIMESTAMP: AvroType("long", logical="timestamp-micros"), DATE: AvroType("int", logical="date"),
}  # fmt: skip
_TYPES_MAX = 10_000


def row_type(schema: ProtoSchema) -> AvroType:
    """Return the record with the columns of a file's first message.

    Raises UnfitSchema for one without a message, or with a type that no table's can be.
    """
    return _Records(schema).record(schema.message(), ())


class _Records:
    """Messages as records. Types are counted as often as they are used, see `lakehouse.plan.avro.avro_schema`."""

    def __init__(self, schema: ProtoSchema) -> None:
        self._schema = schema
        self._count = 0

    def record(self, message: MessageType, within: tuple[str, ...]) -> AvroType:
        check_readable(message)
        if message.name in within:
            raise UnfitSchema(f"{message.name!r} is a part of itself, which no table's type can be")
        self._count += 1
        if self._count > _TYPES_MAX:
            raise UnfitSchema(f"it has more than {_TYPES_MAX} types in it")
        parts = []
        for own_field in message.fields:
            try:
                parts.append(self._field(own_field, (*within, message.name)))
            except UnfitSchema as error:
                raise UnfitSchema(f"field {own_field.name}: {error}") from error
        names = tuple(own_field.name for own_field in message.fields)
        return AvroType("record", message.name, fields=names, parts=tuple(parts))

    def _field(self, own_field: ProtoField, within: tuple[str, ...]) -> AvroType:
        if (entry := self._schema.map_entry(own_field)) is not None:
            key, value = entry.fields
            if key.kind == "string":
                return AvroType("map", parts=(self._single(value, within),))
            return AvroType("array", parts=(self.record(entry, within),))
        part = self._single(own_field, within)
        return AvroType("array", parts=(part,)) if own_field.is_repeated else part

    def _single(self, own_field: ProtoField, within: tuple[str, ...]) -> AvroType:
        kind = own_field.kind
        if kind in INTEGER_DIGITS:
            digits = INTEGER_DIGITS[kind]
            if digits > INTEGER_DIGITS["int64"]:
                return AvroType("bytes", logical="decimal", precision=digits)
            return AvroType("int" if kind.endswith("32") and kind not in UNSIGNED else "long")
        if kind in _PLAIN:
            return AvroType(_PLAIN[kind])
        if kind == "enum":
            symbols = tuple(name for name, _ in self._schema.enums.get(own_field.type_name, ()))
            return AvroType("enum", own_field.type_name, symbols=symbols)
        if kind != "message":
            raise UnfitSchema("a group is no type of a column; declare the columns, without it")
        if own_field.type_name in _WELL_KNOWN:
            return _WELL_KNOWN[own_field.type_name]
        if own_field.type_name in (DECIMAL, CONFLUENT_DECIMAL):
            raise UnfitSchema(f"a {own_field.type_name} does not say how many digits it has; declare the columns")
        message = self._schema.message_of(own_field)
        if message.name in WRAPPERS and (value := message.field("value")) is not None:
            return self._single(value, within)
        return self.record(message, within)


def check_readable(message: MessageType) -> None:
    """Raise UnfitSchema for a message of a file whose rules are not known here."""
    if message.edition:
        raise UnfitSchema(
            f"message {message.name} is of a file with editions, which is not read; expected proto2 or proto3"
        )
