"""The meaning of values of Kafka Connect by the schema beside them, computed once for all records with this schema.

`lakehouse.formats.values.connect_value` asks the schema the same questions for each value. The answers here let
lakehouse.spark.part.connect_part read the values without the schema.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.formats.values.connect_record import RecordSchema
from lakehouse.formats.values.connect_value import (
    Fields,
    has_digits,
    is_written_as,
    scale_of_bytes,
    split_payload,
    unit_of_number,
)
from lakehouse.formats.values.json_text import parse_value
from lakehouse.formats.values.text_value import precision_and_scale
from lakehouse.formats.values.unfit import Unfit, decode_utf8
from lakehouse.plan.expression.schema import Column, base_type
from lakehouse.plan.names.debezium_options import DebeziumOptions

BEFORE_PAYLOAD = b'"payload":'
# The numbers in `ValueMeaning.numbers`. Of a decimal: its text is digits, or else bytes, and this the power of ten that
# gives them the column's scale. Of a timestamp: the microseconds in the unit of a number.
DIGITS, NANOS = 0, 0
MICROS_OF_UNIT = {"nanos": NANOS, "micros": 1, "millis": 1000}


@dataclass(frozen=True, slots=True)
class ValueMeaning:
    """How to read the values of a row. fits: by `numbers` and the columns; else only the rule itself can read them.

    numbers: a number as above for each of `explained_columns`; None if the schema does not explain them.
    """

    fits: bool
    numbers: tuple[int | None, ...]


def meaning_of_start(
    start: bytes, columns: tuple[Column, ...], options: DebeziumOptions, *, is_row_alone: bool
) -> ValueMeaning | None:
    """Return the meaning of the values behind the start of a record, its text up to BEFORE_PAYLOAD.

    None if this is no start of {"schema": ..., "payload": ...}. columns: of the row, with their names in the topic.
    is_row_alone: whether the payload is the row, and not an event with the row in `after`.
    """
    try:
        parsed_schema, _ = split_payload(parse_value(decode_utf8(start + BEFORE_PAYLOAD + b"null}")))
        if parsed_schema is None:
            return None
        schema = RecordSchema(parsed_schema)
        fields = schema.row_schemas if is_row_alone else schema.after_schemas
        return _meaning_of_fields(fields, columns, options)
    except Unfit:
        return None


def _meaning_of_fields(fields: Fields | None, columns: tuple[Column, ...], options: DebeziumOptions) -> ValueMeaning:
    """Return the meaning of a row's fields. Raises Unfit for a schema that is none."""
    fits, numbers, units = True, [], dict(options.times)
    for column in columns:
        schema = fields.get(column.name) if fields is not None else None
        unit = unit_of_number(schema, units.get(column.name, ""))
        match base_type(column.type):
            case "decimal":
                _, scale = precision_and_scale(column.type)
                own_scale = scale_of_bytes(schema, options.decimals, scale)
                if own_scale is not None:
                    numbers.append(10 ** (scale - own_scale) if 0 <= own_scale <= scale else None)
                else:
                    numbers.append(DIGITS if has_digits(schema, options.decimals) else None)
            case "timestamp":
                numbers.append(MICROS_OF_UNIT.get(unit))
            case "date":
                fits &= unit in ("", "days")
            case "string":
                fits &= not is_written_as(schema, "bytes")
            case "binary":
                fits &= not is_written_as(schema, "string")
    return ValueMeaning(fits, tuple(numbers))


def explained_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return those columns of which `ValueMeaning.numbers` has a number."""
    return tuple(column for column in columns if base_type(column.type) in ("decimal", "timestamp"))
