"""A row of columns as a message of a schema that has its own types for them: what `proto_reader` reads, written.

Columns that the message does not have are left out, and so are nulls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

from lakehouse.formats.protobuf.proto_json import message_class
from lakehouse.formats.protobuf.proto_writer import check_no_null, fill_date, fill_timestamp, fill_unscaled
from lakehouse.formats.values.unfit import Unfit, clip_text, unfit_value
from lakehouse.plan.protobuf.proto_schema import CONFLUENT_DECIMAL, MessageType, ProtoField, ProtoSchema

_EXACT = Context(prec=100)


def encode_row(schema: ProtoSchema, row: Mapping[str, Any], *, ignores_case: bool) -> bytes:
    """Return the bytes of a schema's first message with a row. Raises Unfit for a value that it can't hold.

    ignores_case: names of fields may be in another case.
    """
    message_type = schema.message()
    message = message_class(schema, message_type.name)()
    _Filler(schema, ignores_case).fill(message, message_type, row)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


@dataclass(frozen=True, slots=True)
class _Filler:
    schema: ProtoSchema
    ignores_case: bool

    def fill(self, message: Any, message_type: MessageType, row: Mapping[str, Any]) -> None:
        """Fill a message with the fields of a struct."""
        names = {name.lower(): name for name in row} if self.ignores_case else {}
        for field in message_type.fields:
            value = row.get(names.get(field.name.lower(), field.name))
            if value is None:
                continue
            try:
                self._fill_field(message, field, value)
            except (TypeError, ValueError) as error:
                raise Unfit(f"field {field.name}: {clip_text(str(error), 200)}") from error

    def _fill_field(self, message: Any, field: ProtoField, value: Any) -> None:
        if (entry := self.schema.map_entry(field)) is not None:
            self._fill_map(getattr(message, field.name), entry, value)
        elif field.is_repeated:
            self._fill_list(getattr(message, field.name), field, value)
        elif field.kind == "message":
            part = getattr(message, field.name)
            part.SetInParent()
            self._fill_message(part, field, value)
        else:
            setattr(message, field.name, self._scalar(field, value))

    def _fill_map(self, entries: Any, entry: MessageType, value: Any) -> None:
        key_field, value_field = entry.fields
        items = [(item["key"], item["value"]) for item in value] if isinstance(value, list) else dict(value).items()
        check_no_null(item for _, item in items)
        for own_key, item in items:
            key = self._scalar(key_field, own_key)
            if value_field.kind == "message":
                self._fill_message(entries[key], value_field, item)
            else:
                entries[key] = self._scalar(value_field, item)

    def _fill_list(self, repeated: Any, field: ProtoField, items: Any) -> None:
        check_no_null(items)
        for item in items:
            if field.kind == "message":
                self._fill_message(repeated.add(), field, item)
            else:
                repeated.append(self._scalar(field, item))

    def _fill_message(self, part: Any, field: ProtoField, value: Any) -> None:
        match value:
            case Mapping():
                self.fill(part, self.schema.message_of(field), value)
            case datetime():
                fill_timestamp(part, value)
            case date():
                fill_date(part, value)
            case Decimal() if field.type_name == CONFLUENT_DECIMAL:
                _, digits, exponent = value.as_tuple()
                scale = max(-int(exponent), 0)
                fill_unscaled(part, int(value.scaleb(scale, _EXACT)), len(digits), scale)
            case _:  # a wrapper, or a google.type.Decimal
                (value_field,) = self.schema.message_of(field).fields
                part.value = self._scalar(value_field, value)

    def _scalar(self, field: ProtoField, value: Any) -> Any:
        if isinstance(value, Decimal) and field.kind == "string":
            return f"{value:f}"
        if isinstance(value, Decimal):
            if value.as_integer_ratio()[1] != 1:  # arithmetic has 28 digits
                raise unfit_value(str(field), f"{value:f}")
            return int(value)
        if field.kind == "enum" and isinstance(value, str):
            numbers = dict(self.schema.enums.get(field.type_name, ()))
            return numbers[value] if value in numbers else int(value)
        return value
