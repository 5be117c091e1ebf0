"""Copies of a writer's messages that have only what columns need: a library reads and writes by them.

A copy has the fields that are read, named by their places (c0, c1), with their numbers and types. The library skips
all others as unknown. A copy has all fields of a oneof, since each of them replaces the others. Enums are numbers, and
required fields optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.plan.protobuf.proto_schema import ProtoField
from lakehouse.plan.protobuf.protoc import missing_extra

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

_FILE = "copies.proto"
_PACKAGE = "copies"


class MessageCopies:
    """The copies, as they are made, in one file."""

    def __init__(self) -> None:
        try:
            from google.protobuf.descriptor_pb2 import FileDescriptorProto
        except ImportError as error:
            raise missing_extra(error) from None
        self._file = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")

    def add(self) -> DescriptorProto:
        """Return a new message without fields."""
        return self._file.message_type.add(name=f"M{len(self._file.message_type)}")

    def message_class(self, message: DescriptorProto) -> Any:
        """Return the class of a message, when all are complete."""
        from google.protobuf import descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))


def add_field(message: DescriptorProto, name: str, field: ProtoField, part: DescriptorProto | None) -> None:
    """Add a single or repeated field to a message. part: the message that it holds, if it holds one."""
    copy = message.field.add(name=name, number=field.number, label="LABEL_OPTIONAL")
    if field.is_repeated:
        copy.label = copy.LABEL_REPEATED
    if part is not None:
        copy.type, copy.type_name = copy.TYPE_MESSAGE, f".{_PACKAGE}.{part.name}"
    else:
        copy.type = copy.Type.Value(f"TYPE_{'INT32' if field.kind == 'enum' else field.kind.upper()}")
        copy.proto3_optional = field.has_presence and not field.is_repeated and field.oneof < 0


def add_map(message: DescriptorProto, name: str, field: ProtoField, value: ProtoField, part: Any) -> None:
    """Add a field that is a map with texts for keys. value: the field of its values."""
    entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    add_field(entry, "key", ProtoField("key", 1, "string"), None)
    add_field(entry, "value", ProtoField("value", 2, value.kind), part)
    copy = message.field.add(name=name, number=field.number, label="LABEL_REPEATED", type="TYPE_MESSAGE")
    copy.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"


def complete_oneofs(message: DescriptorProto, fields: tuple[ProtoField, ...], places: dict[int, str]) -> None:
    """Complete a message: add the other fields of each oneof of which it has a field.

    places: the names that the fields have got, by their numbers.
    """
    groups = {field.oneof for field in fields if field.oneof >= 0 and field.number in places}
    for field in fields:
        if field.oneof in groups and field.number not in places and field.kind != "group":
            # A message is bytes here, and so is a text: nobody looks into them.
            is_bytes = field.kind in ("message", "string")
            unread = ProtoField("", field.number, "bytes" if is_bytes else field.kind, oneof=field.oneof)
            places[field.number] = f"u{len(places)}"
            add_field(message, places[field.number], unread, None)
    group_places: dict[int, int] = {}
    by_number = {field.number: field for field in fields}
    copies = list(message.field)
    for copy in copies:
        group = by_number[copy.number].oneof
        if group in groups:
            if group not in group_places:
                group_places[group] = len(message.oneof_decl)
                message.oneof_decl.add(name=f"o{group}")
            copy.oneof_index = group_places[group]
    for copy in copies:
        if copy.proto3_optional:
            copy.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{copy.name}")
