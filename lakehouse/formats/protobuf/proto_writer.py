"""The message in which columns are written: the text of its .proto file, and the bytes of rows.

| column                     | in the message                                                        |
|----------------------------|-----------------------------------------------------------------------|
| boolean, string, binary    | optional bool, string, bytes                                          |
| tinyint, smallint, int     | optional int32                                                        |
| bigint; float; double      | optional int64; float; double                                         |
| decimal; date; timestamp   | confluent.type.Decimal; google.type.Date; google.protobuf.Timestamp   |
| struct                     | a message of its own, inside of this one                              |
| array; map                 | repeated; map<string, ...>                                            |

Protobuf has no null in an array or a map, and no array or map that is null: such an array is written as an empty one.
A null in one is an error, and not the type's default, since nobody could tell it from a value. That a type may hold
nulls is no reason to refuse it: here every type may, also that of a list that has none (collect_list). So does
Confluent's converter judge the value, and not the type; a map's null became the default there.
Source: https://github.com/confluentinc/ksql/issues/9324, https://github.com/confluentinc/schema-registry/pull/2351.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakehouse.formats.protobuf.message_copies import MessageCopies, add_field, add_map, complete_oneofs
from lakehouse.formats.protobuf.proto_numbers import ProtoNumbers, parse_numbers
from lakehouse.formats.values.text_value import precision_and_scale
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column, base_type, field_types, item_type
from lakehouse.plan.names.schema_options import SchemaOptions
from lakehouse.plan.protobuf.proto_schema import CONFLUENT_DECIMAL, DATE, TIMESTAMP, ProtoField
from lakehouse.plan.registered.writable import map_entry_name
from lakehouse.semantics.epoch_time import to_microseconds

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

WriteRow = Callable[[Mapping[str, Any]], bytes]
Fill = Callable[[Any, Any], None]
_SCALARS = {
    "string": "string", "boolean": "bool", "tinyint": "int32", "smallint": "int32", "int": "int32", "bigint": "int64",
    "float": "float", "double": "double", "binary": "bytes",
}  # fmt: skip
_MESSAGES = {"decimal": CONFLUENT_DECIMAL, "date": DATE, "timestamp": TIMESTAMP}
_FILES = {
    CONFLUENT_DECIMAL: "confluent/type/decimal.proto", DATE: "google/type/date.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
}  # fmt: skip
_MEMBERS = {
    CONFLUENT_DECIMAL: (ProtoField("value", 1, "bytes"), ProtoField("precision", 2, "uint32"),
                        ProtoField("scale", 3, "int32")),
    DATE: tuple(ProtoField(name, number, "int32") for number, name in enumerate(("year", "month", "day"), 1)),
    TIMESTAMP: (ProtoField("seconds", 1, "int64"), ProtoField("nanos", 2, "int32")),
}  # fmt: skip


def proto_text(columns: tuple[Column, ...], options: SchemaOptions) -> str:
    """Return the text of the .proto file with the message of columns, as a format's options say."""
    package, _, name = options.name.rpartition(".")
    types_by_name = {column.name: column.type for column in columns}
    imports: set[str] = set()
    lines = list(_message_lines(name, types_by_name, options.name, "", parse_numbers(options.numbers), imports))
    head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
    return "\n".join([*head, *(f'import "{file}";' for file in sorted(imports)), *lines, ""])


def _message_lines(
    name: str, types_by_name: Mapping[str, str], full_name: str, path: str, numbers: ProtoNumbers, imports: set[str]
) -> Iterator[str]:
    yield f"message {name} {{"
    reserved = numbers.reserved.get(path, ())
    kept_numbers = [item.replace("-", " to ") for item in reserved if item[0].isdigit()]
    kept_names = [f'"{item}"' for item in reserved if not item[0].isdigit()]
    yield from (f"  reserved {', '.join(items)};" for items in (kept_numbers, kept_names) if items)
    map_names = [column_name for column_name, kind in types_by_name.items() if base_type(kind) == "map"]
    taken_names = {*types_by_name, *map(map_entry_name, map_names)}
    nested: list[str] = []
    for place, (column_name, declared_type) in enumerate(types_by_name.items()):
        base_name, own_type = base_type(declared_type), declared_type
        if base_name in ("array", "map"):
            own_type = item_type(declared_type)
        if base_type(own_type) == "struct":
            nested_name = _free_name(column_name, taken_names)
            type_name = f".{full_name}.{nested_name}"
            members = field_types(own_type)
            nested += _message_lines(nested_name, members, type_name[1:], f"{path}{column_name}.", numbers, imports)
        else:
            type_name = _SCALARS.get(base_type(own_type)) or f".{_MESSAGES[base_type(own_type)]}"
            if type_name[1:] in _FILES:
                imports.add(_FILES[type_name[1:]])
        label = {"array": "repeated ", "map": "", "struct": ""}.get(base_name, "optional " * (type_name[0] != "."))
        shown_type = f"map<string, {type_name}>" if base_name == "map" else type_name
        yield f"  {label}{shown_type} {column_name} = {numbers.number_of(path + column_name, place)};"
    yield from (f"  {line}" for line in nested)
    yield "}"


def _free_name(column_name: str, taken_names: set[str]) -> str:
    """Return the name of a struct's message: the column's, as messages are named, that nothing else has."""
    name = "".join(part[:1].upper() + part[1:] for part in column_name.split("_")) or "Struct"
    name = f"Struct{name}" if name[0].isdigit() else name
    while name in taken_names:
        name += "Struct"
    taken_names.add(name)
    return name


def row_writer(columns: tuple[Column, ...], options: SchemaOptions) -> WriteRow:
    """Return the function that writes rows of columns as the message of `proto_text`; it raises Unfit."""
    writer = _Writer(parse_numbers(options.numbers), options.has_millis)
    copy, fill = writer.record({column.name: column.type for column in columns}, "")
    message_class = writer.messages.message_class(copy)

    def write(row: Mapping[str, Any]) -> bytes:
        message = message_class()
        try:
            fill(message, row)
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, Unfit) else Unfit(str(error)) from error
        data: bytes = message.SerializeToString(deterministic=True)
        return data

    return write


class _Writer:
    def __init__(self, numbers: ProtoNumbers, has_millis: bool) -> None:
        self.messages = MessageCopies()
        self._numbers, self._has_millis = numbers, has_millis

    def record(self, types_by_name: Mapping[str, str], path: str) -> tuple[DescriptorProto, Fill]:
        """Return the copy of a struct's message, and the function that fills such a message with a struct."""
        copy = self.messages.add()
        fields: list[ProtoField] = []
        steps: list[tuple[str, Fill]] = []
        for place, (name, declared_type) in enumerate(types_by_name.items()):
            number, base_name = self._numbers.number_of(path + name, place), base_type(declared_type)
            is_list = base_name in ("array", "map")
            own_type = item_type(declared_type) if is_list else declared_type
            kind = _SCALARS.get(base_type(own_type), "message")
            field = ProtoField(name, number, kind, is_repeated=is_list, has_presence=not is_list)
            part, fill_one = self._part(own_type, f"{path}{name}.")
            if base_name == "map":
                add_map(copy, f"c{place}", field, ProtoField("value", 2, kind), part)
                fill: Fill = _map_filler(f"c{place}", fill_one)
            else:
                add_field(copy, f"c{place}", field, part)
                fill = (_list_filler if is_list else _single_filler)(f"c{place}", fill_one)
            fields.append(field)
            steps.append((name, fill))
        complete_oneofs(copy, tuple(fields), {field.number: f"c{place}" for place, field in enumerate(fields)})

        def fill_record(message: Any, row: Mapping[str, Any]) -> None:
            for name, fill in steps:
                if (value := row.get(name)) is not None:
                    try:
                        fill(message, value)
                    except (TypeError, ValueError) as error:
                        raise Unfit(f"field {name}: {error}") from error

        return copy, fill_record

    def _part(self, own_type: str, path: str) -> tuple[DescriptorProto | None, Fill | None]:
        """Return the copy of the message that a value is, and the function that fills it; None for a scalar."""
        base_name = base_type(own_type)
        if base_name == "struct":
            return self.record(field_types(own_type), path)
        if base_name not in _MESSAGES:
            return None, None
        copy = self.messages.add()
        for field in _MEMBERS[_MESSAGES[base_name]]:
            add_field(copy, field.name, field, None)
        match base_name:
            case "date":
                return copy, fill_date
            case "timestamp":
                return copy, _fill_millis if self._has_millis else fill_timestamp
        precision, scale = precision_and_scale(own_type)
        return copy, lambda message, value: _fill_decimal(message, value, precision, scale)


def _single_filler(place: str, fill: Fill | None) -> Fill:
    if fill is None:
        return lambda message, value: setattr(message, place, value)

    def fill_part(message: Any, value: Any) -> None:
        part = getattr(message, place)
        part.SetInParent()
        fill(part, value)

    return fill_part


def _list_filler(place: str, fill: Fill | None) -> Fill:
    def fill_list(message: Any, items: Any) -> None:
        check_no_null(items)
        repeated = getattr(message, place)
        if fill is None:
            repeated.extend(items)
            return
        for item in items:
            fill(repeated.add(), item)

    return fill_list


def _map_filler(place: str, fill: Fill | None) -> Fill:
    def fill_map(message: Any, value: Any) -> None:
        items = dict(value)
        check_no_null(items.values())
        entries = getattr(message, place)
        for key, item in items.items():
            if fill is None:
                entries[key] = item
            else:
                fill(entries[key], item)

    return fill_map


def check_no_null(items: Iterable[Any]) -> None:
    """Raise Unfit for a null among the values of an array or a map."""
    if any(item is None for item in items):
        raise Unfit(
            "found a null in an array or a map, which Protobuf can't hold. Leave nulls out (array_compact), keep them "
            "in structs (transform(a, x -> struct(x AS value))), or write the topic in another format: avro, json"
        )


def fill_date(message: Any, value: date) -> None:
    """Fill a google.type.Date."""
    message.year, message.month, message.day = value.year, value.month, value.day


def fill_timestamp(message: Any, value: datetime) -> None:
    """Fill a google.protobuf.Timestamp."""
    micros = to_microseconds(value.replace(tzinfo=UTC) if value.tzinfo is None else value)
    message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1000


def _fill_millis(message: Any, value: datetime) -> None:
    """Fill a google.protobuf.Timestamp with the milliseconds alone, as SQL has them in all its formats."""
    fill_timestamp(message, value.replace(microsecond=value.microsecond // 1000 * 1000))


def _fill_decimal(message: Any, value: Decimal, precision: int, scale: int) -> None:
    sign, digits, exponent = Decimal(value).as_tuple()
    zeros = int(exponent) + scale if isinstance(exponent, int) else -1
    unscaled = int("".join(map(str, digits))) * 10 ** max(zeros, 0)
    if zeros < 0 or unscaled >= 10**precision:
        raise Unfit(f"expected decimal({precision}, {scale}), found {value}")
    fill_unscaled(message, -unscaled if sign else unscaled, precision, scale)


def fill_unscaled(message: Any, unscaled: int, precision: int, scale: int) -> None:
    """Fill a confluent.type.Decimal: the unscaled number in as few bytes as hold its two's complement, as Java's."""
    message.value = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    message.precision, message.scale = precision, scale
