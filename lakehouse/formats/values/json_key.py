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

from collections.abc import Callable
from typing import Any

from lakehouse.formats.values import json_value
from lakehouse.formats.values.json_text import Members, parse_object, parse_value
from lakehouse.formats.values.unfit import Unfit, clip_text, decode_utf8, unfit_value
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type, field_types
from lakehouse.semantics.blanks import JSON_BLANKS


def decode_single_key(data: bytes, columns: tuple[Column, ...], *, is_loose: bool = False) -> dict[str, Any] | None:
    """Return the row of a key of one column; None for the literal null. Raises Unfit.

    is_loose: read JSON as ksqlDB does, names in any case, numbers in quotes: the format "json_bare".
    """
    (column,) = columns
    key_text = decode_utf8(data)
    is_object = key_text.strip(JSON_BLANKS).startswith("{")
    # Like from_json, this ignores the text after an object: see `parse_object`.
    parsed_key = parse_object(key_text) if is_object and not is_loose else parse_value(key_text)
    if parsed_key is None:
        return None
    if isinstance(parsed_key, Members) and _is_around(parsed_key, column, is_loose=is_loose):
        return json_value.decode_members(parsed_key, columns, any_case=is_loose)
    if isinstance(parsed_key, list) and base_type(column.type) == "string" and not is_loose:
        raise Unfit(f"{column.name}: {unfit_value('string', clip_text(key_text.strip(JSON_BLANKS)))}")
    try:
        return {column.name: json_value.json_reader(column.type, any_case=is_loose)(parsed_key)}
    except Unfit as error:
        raise Unfit(f"{column.name}: {error}") from error


def _is_around(members: Members, column: Column, *, is_loose: bool) -> bool:
    """Say whether an object stands around the column's value, rather than being the value itself."""
    base_name = base_type(column.type)
    if base_name not in NESTED_TYPES or base_name == "array":
        return base_name != "string" or not is_loose
    if base_name == "map":
        return not is_loose
    if not is_loose:
        return is_around_struct(members, column)
    column_name = json_value.upper_ascii(column.name)
    member_names = {json_value.upper_ascii(name) for name, _ in members}
    struct_names = {json_value.upper_ascii(name) for name in field_types(column.type)}
    return column_name in member_names and column_name not in struct_names


def is_around_struct(members: Members, column: Column, compared_form: Callable[[str], str] = str) -> bool:
    """Say whether an object stands around a struct, a key's only column, rather than being it.

    It does if it has a field of the column's name, or none of the struct's. compared_form: gives the form in which
    names are compared, such as in lower case.
    """
    member_names = {compared_form(name) for name, _ in members}
    struct_names = map(compared_form, field_types(column.type))
    return compared_form(column.name) in member_names or member_names.isdisjoint(struct_names)
