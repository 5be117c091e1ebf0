"""A key of one column in JSON: its value alone, or an object with a field of its name.

ksqlDB writes the value alone, `7`; Debezium and most others write an object, `{"id": 7}`. Declarations in Python and in
SQL read both. Only an object is ambiguous: it may be the value itself, or stand around it:

| the column is | an object, declared in Python ("json")      | in SQL ("json_bare")                                |
|---------------|---------------------------------------------|-----------------------------------------------------|
| a struct      | stands around the value if it has a field   | stands around the value if it has a field of the    |
|               | of the column's name, or none of the struct | column's name, and the struct has none of that name |
| a string      | stands around the value                     | is the value: its text, as in ksqlDB                |
| anything else | stands around the value                     | stands around the value                             |

A field that is absent from the object around the value is null, and so is the key (docs/rules.md, rule 4).
"""

from __future__ import annotations

from typing import Any

from lakehouse.formats import json_value
from lakehouse.formats.json_text import JSON_BLANKS, Members, parse_object, parse_value
from lakehouse.formats.unfit import Unfit, clip_text, decode_utf8, unfit_value
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type, field_types

LOOSE_FORMAT = "json_bare"  # as ksqlDB reads JSON: names in any case, numbers in quotes
KEY_FORMATS = ("json", LOOSE_FORMAT)


def decode_single_key(format: str, data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of a key of one column; None for the literal null. Raises Unfit. format: one of FORMATS."""
    (column,) = columns
    key_text = decode_utf8(data)
    is_object = key_text.strip(JSON_BLANKS).startswith("{")
    # Like from_json, this ignores the text after an object: see `parse_object`.
    parsed_key = parse_object(key_text) if is_object and format != LOOSE_FORMAT else parse_value(key_text)
    if parsed_key is None:
        return None
    if isinstance(parsed_key, Members) and _is_around(format, parsed_key, column):
        return json_value.decode_members(parsed_key, columns, any_case=format == LOOSE_FORMAT)
    if isinstance(parsed_key, list) and base_type(column.type) == "string" and format != LOOSE_FORMAT:
        raise Unfit(f"{column.name}: {unfit_value('string', clip_text(key_text.strip(JSON_BLANKS)))}")
    try:
        return {column.name: json_value.json_reader(column.type, any_case=format == LOOSE_FORMAT)(parsed_key)}
    except Unfit as error:
        raise Unfit(f"{column.name}: {error}") from error


def _is_around(format: str, members: Members, column: Column) -> bool:
    """Say whether an object stands around the column's value, rather than being the value itself."""
    base_name = base_type(column.type)
    if base_name not in NESTED_TYPES or base_name == "array":
        return base_name != "string" or format != LOOSE_FORMAT
    if base_name == "map":
        return format != LOOSE_FORMAT
    is_loose = format == LOOSE_FORMAT
    member_names = {json_value.upper_ascii(column_name) if is_loose else column_name for column_name, _ in members}
    struct_names = {
        json_value.upper_ascii(column_name) if is_loose else column_name for column_name in field_types(column.type)
    }
    column_name = json_value.upper_ascii(column.name) if is_loose else column.name
    if is_loose:
        return column_name in member_names and column_name not in struct_names
    return column_name in member_names or not member_names & struct_names
