"""A Protobuf schema, parsed. Source: https://protobuf.dev/programming-guides/proto3/, encoding/.

Only what says how bytes are read is kept, in plain values: they go to other processes, and need no library there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakehouse.plan.refused.unfit_schema import UnfitSchema

PROTOBUF_KIND = "PROTOBUF"  # as registries call schemas of Protobuf
# How many decimal digits a number of a type may have.
INTEGER_DIGITS = {
    "int32": 10, "sint32": 10, "sfixed32": 10, "uint32": 10, "fixed32": 10,
    "int64": 19, "sint64": 19, "sfixed64": 19, "uint64": 20, "fixed64": 20,
}  # fmt: skip
UNSIGNED = ("uint32", "fixed32", "uint64", "fixed64")
WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
DATE, DECIMAL, CONFLUENT_DECIMAL = "google.type.Date", "google.type.Decimal", "confluent.type.Decimal"


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message. kind: a scalar's name, or "enum", "message", "group". type_name: of its enum or message.

    has_presence: whether a single value can be absent, so that it is no default. oneof: the place of the group of
    fields of which one alone can be there; -1 for none.
    """

    name: str
    number: int
    kind: str
    type_name: str = ""
    is_repeated: bool = False
    has_presence: bool = False
    oneof: int = -1

    def __str__(self) -> str:
        own_name = f"{self.kind} {self.type_name}" if self.kind == "enum" else self.type_name or self.kind
        return f"repeated {own_name}" if self.is_repeated else own_name


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message. name: in full. nested: the names of the messages in it, in order.

    is_map_entry: it is a map's entry, which nobody wrote into the schema. edition: that of its file; empty for proto2
    and proto3. reserved_numbers: the first and the last of each range that no field may have.
    """

    name: str
    fields: tuple[ProtoField, ...] = ()
    nested: tuple[str, ...] = ()
    is_map_entry: bool = False
    edition: str = ""
    reserved_numbers: tuple[tuple[int, int], ...] = ()
    reserved_names: tuple[str, ...] = ()

    def field(self, name: str) -> ProtoField | None:
        """Return a field by its name; None if there is none."""
        return next((own_field for own_field in self.fields if own_field.name == name), None)


@dataclass(frozen=True)
class ProtoSchema:
    """A file and those that it imports. messages, enums: by their full names. tops: the file's messages, in order.

    counts_entries: whether a message's place among those in another one counts the entries of maps: in a compiled file,
    where they are messages, but not in a text. files: all files, as a FileDescriptorSet. imported: the names of those
    that somebody has registered.
    """

    messages: Mapping[str, MessageType] = field(hash=False)
    enums: Mapping[str, tuple[tuple[str, int], ...]] = field(hash=False)
    tops: tuple[str, ...]
    counts_entries: bool
    files: bytes
    imported: tuple[str, ...] = ()

    def message(self, indexes: Iterable[int] = (0,)) -> MessageType:
        """Return the message at a place: that among the file's, then among those in it, and so on.

        Raises UnfitSchema if there is none, or it can't be read here.
        """
        names, message = self.tops, None
        for index in indexes:
            if not 0 <= index < len(names):
                raise UnfitSchema(f"expected the index of one of {len(names)} messages, found {index}")
            message = self.messages[names[index]]
            names = tuple(
                name for name in message.nested if self.counts_entries or not self.messages[name].is_map_entry
            )
        if message is None:
            raise UnfitSchema("expected the index of a message, found none")
        return message

    def message_of(self, own_field: ProtoField) -> MessageType:
        """Return the message that is a field's type. Raises UnfitSchema if the schema does not have it."""
        if own_field.type_name not in self.messages:
            raise UnfitSchema(f"the message {own_field.type_name!r} is not defined")
        return self.messages[own_field.type_name]

    def map_entry(self, own_field: ProtoField) -> MessageType | None:
        """Return the entry if a field is a map; else None."""
        if own_field.kind != "message" or not own_field.is_repeated:
            return None
        message = self.message_of(own_field)
        return message if message.is_map_entry else None
