"""Protobuf's values as those of a table's columns: which fields of a writer fit a declared type, and the values.

| declared           | accepted                                                                                  |
|--------------------|-------------------------------------------------------------------------------------------|
| any                | a field that the message type does not have, and an absent one that is optional or in a   |
|                    | oneof, is null; other fields are left out                                                 |
| integers           | all integers, in the column's range                                                       |
| float; double      | float; float, double, integers of 32 bits                                                 |
| decimal            | integers, if all fit; google.type.Decimal and confluent.type.Decimal, if the digits do    |
| string             | string; the name of an enum's number, or the number if it has no name                     |
| boolean; binary    | bool; bytes                                                                               |
| date; timestamp    | google.type.Date; google.protobuf.Timestamp, cut to microseconds; in the years 1 to 9999  |
| struct             | a message; an absent one is null                                                          |
| array              | a repeated field; absent ones are an empty array. Also a map, as structs of key and value |
| map                | a map whose keys are strings; of equal keys the last counts                               |

A message of google.protobuf's wrappers, such as Int32Value, is read as the value in it. A type is judged once, before
any value: nothing else is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakehouse.formats.protobuf.message_copies import MessageCopies, add_field, add_map, complete_oneofs
from lakehouse.formats.values.connect_value import decimal_of_unscaled
from lakehouse.formats.values.field_places import names_by_place
from lakehouse.formats.values.text_value import INTEGER_BITS, check_integer_range, parse_decimal, precision_and_scale
from lakehouse.formats.values.unfit import Unfit, unfit_value
from lakehouse.plan.expression.schema import Column, base_type, field_types, item_type
from lakehouse.plan.protobuf.proto_columns import check_readable
from lakehouse.plan.protobuf.proto_schema import (
    CONFLUENT_DECIMAL,
    DATE,
    DECIMAL,
    DURATION,
    INTEGER_DIGITS,
    TIMESTAMP,
    UNSIGNED,
    WRAPPERS,
    MessageType,
    ProtoField,
    ProtoSchema,
)
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.semantics.number_text import exact_decimal

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

Row = dict[str, Any]
ReadMessage = Callable[[bytes], Row]
Convert = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = {
    ("bool", "boolean"), ("string", "string"), ("bytes", "binary"), ("float", "float"), ("float", "double"),
    ("double", "double"),
}  # fmt: skip
_DIGITS_OF_32_BITS, _NANOS = 10, 1_000_000_000


def message_reader(
    schema: ProtoSchema, message: MessageType, columns: tuple[Column, ...], *, ignores_case: bool = False
) -> ReadMessage:
    """Return the function that reads a row of columns. Raises Unfit if a type does not fit a column's.

    ignores_case: names of fields may be in another case, as SQL reads them.
    """
    message_class, read_row = make_copy_reader(schema, message, columns, ignores_case=ignores_case)
    from google.protobuf.message import DecodeError

    def read(data: bytes) -> Row:
        try:
            values = message_class.FromString(data)
        except DecodeError as error:
            raise Unfit(f"expected a message {message.name}, found {len(data)} bytes that are none") from error
        return read_row(values)

    return read


def make_copy_reader(
    schema: ProtoSchema, message: MessageType, columns: tuple[Column, ...], *, ignores_case: bool
) -> tuple[Any, Callable[[Any], Row]]:
    """Return the class of the copy by which a message is read, and the function that makes a row of such a message.

    Raises Unfit if a type does not fit a column's.
    """
    reader = _Reader(schema, ignores_case)
    try:
        copy, read_row = reader.record(message, {column.name: column.type for column in columns})
    except UnfitSchema as error:
        raise Unfit(str(error)) from error
    return reader.messages.message_class(copy), read_row


def fields_to_read(
    message: MessageType, types_by_name: Mapping[str, str], *, ignores_case: bool
) -> list[tuple[str, ProtoField, str]]:
    """Return the columns that a message has, with their fields and these fields' names in its copy. Raises Unfit."""
    own_names = names_by_place([field.name for field in message.fields], types_by_name, ignores_case=ignores_case)
    # SQL's columns never differ in case alone, so no two have one field.
    return [
        (own_names[place][0], message.fields[place], f"c{number}") for number, place in enumerate(sorted(own_names))
    ]


class _Reader:
    """The copies of a schema's messages by which a library reads them."""

    def __init__(self, schema: ProtoSchema, ignores_case: bool) -> None:
        self.messages = MessageCopies()
        self._schema, self._ignores_case = schema, ignores_case

    def record(
        self, message: MessageType, types_by_name: Mapping[str, str]
    ) -> tuple[DescriptorProto, Callable[[Any], Row]]:
        """Return the copy of a message, and the function that makes a row of its values. Raises Unfit, UnfitSchema."""
        check_readable(message)
        copy = self.messages.add()
        places: dict[int, str] = {}
        steps: list[tuple[str, str, Convert]] = []
        for name, field, place in fields_to_read(message, types_by_name, ignores_case=self._ignores_case):
            places[field.number] = place
            try:
                get = self._field(copy, place, field, types_by_name[name])
            except (Unfit, UnfitSchema) as error:
                raise Unfit(f"field {field.name}: {error}") from error
            steps.append((name, field.name, get))
        complete_oneofs(copy, message.fields, places)
        nulls: Row = dict.fromkeys(types_by_name)

        def read(values: Any) -> Row:
            row = nulls.copy()
            for name, field_name, get in steps:
                try:
                    row[name] = get(values)
                except Unfit as error:
                    raise Unfit(f"field {field_name}: {error}") from error
            return row

        return copy, read

    def _field(self, copy: DescriptorProto, place: str, field: ProtoField, declared_type: str) -> Convert:
        """Add a field to the copy of its message; return the function that gets its value from such a message."""
        base_name = base_type(declared_type)
        if base_name == "map":
            entry = self._schema.map_entry(field)
            if entry is None or entry.fields[0].kind != "string":
                raise Unfit(f"{self._field_text(field)}, declared {declared_type}")
            part, convert = self._single(entry.fields[1], item_type(declared_type), declared_type)
            add_map(copy, place, field, entry.fields[1], part)
            return lambda values: {key: convert(value) for key, value in getattr(values, place).items()}
        if field.is_repeated:
            if base_name != "array":
                raise Unfit(f"{self._field_text(field)}, declared {declared_type}")
            part, convert = self._single(field, item_type(declared_type), declared_type)
            add_field(copy, place, field, part)
            return lambda values: [convert(value) for value in getattr(values, place)]
        part, convert = self._single(field, declared_type, declared_type)
        add_field(copy, place, field, part)
        if field.has_presence:
            return lambda values: convert(getattr(values, place)) if values.HasField(place) else None
        return lambda values: convert(getattr(values, place))

    def _single(self, field: ProtoField, own_type: str, declared_type: str) -> tuple[DescriptorProto | None, Convert]:
        """Return the copy of the message that a single value is, if it is one, and the function that converts it.

        own_type: that of the value. declared_type: of the whole field, for the reason.
        """
        if field.kind == "message":
            return self._message(field, own_type, declared_type)
        convert = _scalar(field, own_type)
        if field.kind == "enum" and base_type(own_type) == "string":
            convert = _enum_value(self._schema.enums.get(field.type_name, ()))
        if convert is None:
            raise Unfit(f"{self._field_text(field)}, declared {declared_type}")
        return None, convert

    def _message(self, field: ProtoField, own_type: str, declared_type: str) -> tuple[DescriptorProto | None, Convert]:
        message, base_name = self._schema.message_of(field), base_type(own_type)
        if base_name == "struct":
            return self.record(message, field_types(own_type))
        if message.name in WRAPPERS:
            copy, read_row = self.record(message, {"value": own_type})
            return copy, lambda values: read_row(values)["value"]
        members, convert = well_known_type(message.name, own_type)
        fields = [message.field(name) for name in members]
        if convert is None or any(member is None or member.has_presence for member in fields):
            advice = "; it is a struct<seconds: bigint, nanos: int>" if message.name == DURATION else ""
            raise Unfit(f"{self._field_text(field)}, declared {declared_type}{advice}")
        copy, read_row = self.record(message, members)
        return copy, lambda values: convert(**read_row(values))

    def _field_text(self, field: ProtoField) -> str:
        entry = self._schema.map_entry(field)
        return str(field) if entry is None else f"map of {entry.fields[0]} to {entry.fields[1]}"


def _scalar(field: ProtoField, declared_type: str) -> Convert | None:
    """Return the function that converts a number, a text or bytes; None if the types do not fit."""
    base_name = base_type(declared_type)
    if (field.kind, base_name) in _PLAIN:
        return _unchanged_value
    digits = INTEGER_DIGITS.get(field.kind)
    if digits is None:
        return None
    if base_name in INTEGER_BITS:
        own_bits = (32 if digits == _DIGITS_OF_32_BITS else 64) + (field.kind in UNSIGNED)
        fits_always = own_bits <= INTEGER_BITS[base_name]
        return _unchanged_value if fits_always else lambda number: check_integer_range(number, base_name)
    if base_name == "double" and digits == _DIGITS_OF_32_BITS:
        return float
    if base_name == "decimal":
        precision, scale = precision_and_scale(declared_type)
        if precision - scale >= digits:
            make_decimal = _decimal_maker(declared_type)
            return lambda number: make_decimal(number, 0)
    return None


def _unchanged_value(value: Any) -> Any:
    return value


def _enum_value(symbols: tuple[tuple[str, int], ...]) -> Convert:
    names: dict[int, str] = {}
    for name, number in symbols:
        names.setdefault(number, name)  # of several names the first, as in all libraries
    return lambda number: names.get(number) or str(number)


def well_known_type(name: str, declared_type: str) -> tuple[dict[str, str], Callable[..., Any] | None]:
    """Return the fields of a message that is a date, a timestamp or a decimal, and the function of their values."""
    match name, base_type(declared_type):
        case (message_name, "timestamp") if message_name == TIMESTAMP:
            return {"seconds": "bigint", "nanos": "int"}, _timestamp_of_message
        case (message_name, "date") if message_name == DATE:
            return {"year": "int", "month": "int", "day": "int"}, _date_of_message
        case (message_name, "decimal") if message_name == DECIMAL:
            precision, scale = precision_and_scale(declared_type)
            return {"value": "string"}, lambda value: _decimal_of_text(value, precision, scale)
        case (message_name, "decimal") if message_name == CONFLUENT_DECIMAL:
            make_decimal = _decimal_maker(declared_type)
            return {"value": "binary", "scale": "int"}, lambda value, scale: make_decimal(
                int.from_bytes(value, "big", signed=True), scale
            )
    return {}, None


def _timestamp_of_message(seconds: int, nanos: int) -> datetime:
    try:
        if not 0 <= nanos < _NANOS:
            raise OverflowError
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        time_text = f"{seconds} seconds and {nanos} nanoseconds since 1970"
        raise unfit_value("timestamp in the years 1 to 9999", time_text) from error


def _date_of_message(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except (ValueError, OverflowError) as error:
        raise unfit_value("date with a year, a month and a day", f"{year}-{month}-{day}") from error


def _decimal_maker(declared_type: str) -> Callable[[int, int], Decimal]:
    """Return the function that makes a decimal of its digits and of how many of these are after the point."""
    precision, scale = precision_and_scale(declared_type)
    limit = 10**precision

    def make_decimal(unscaled: int, own_scale: int) -> Decimal:
        if 0 <= own_scale <= scale:  # the usual case, quickly
            number = unscaled * 10 ** (scale - own_scale)
            if -limit < number < limit:
                return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
        return decimal_of_unscaled(unscaled, own_scale, precision, scale)

    return make_decimal


def _decimal_of_text(own_text: str, precision: int, scale: int) -> Decimal:
    """Return the number in a google.type.Decimal; by its definition an empty text is 0. Raises Unfit."""
    text = own_text or "0"
    parse_decimal(text, precision, scale)  # its digits fit, rounded: then an exact one can be made
    number = exact_decimal(text)
    sign, digits, exponent = number.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return decimal_of_unscaled(unscaled, -int(exponent), precision, scale)
