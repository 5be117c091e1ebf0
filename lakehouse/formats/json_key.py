"""A key of one column in JSON: its value alone, or an object with a field of its name.

ksqlDB writes the value alone, `7`, and Debezium and most others an object, `{"id": 7}`. Both are read, from Python and
from SQL. Only of an object it must be told whether it is the value itself:

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
from lakehouse.formats.json_text import BLANKS, Members, parse, parse_value
from lakehouse.formats.unfit import Unfit, clipped, expected, utf8
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type, field_types

LOOSE = "json_bare"  # names in any case, numbers in quotes: as ksqlDB reads JSON
FORMATS = ("json", LOOSE)


def decode(format: str, data: bytes, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the row of a key of one column; None for the literal null. Raises Unfit. format: one of FORMATS."""
    (column,) = columns
    text = utf8(data)
    is_object = text.strip(BLANKS).startswith("{")
    # As from_json reads an object, what follows it is not looked at: see `parse`.
    parsed = parse(text) if is_object and format != LOOSE else parse_value(text)
    if parsed is None:
        return None
    if isinstance(parsed, Members) and _is_around(format, parsed, column):
        return json_value.decode_members(parsed, columns, any_case=format == LOOSE)
    if isinstance(parsed, list) and base_type(column.type) == "string" and format != LOOSE:
        raise Unfit(f"{column.name}: {expected('string', clipped(text.strip(BLANKS)))}")
    try:
        return {column.name: json_value.reader(column.type, any_case=format == LOOSE)(parsed)}
    except Unfit as error:
        raise Unfit(f"{column.name}: {error}") from error


def _is_around(format: str, members: Members, column: Column) -> bool:
    """Say whether an object stands around the column's value, and is not the value itself."""
    base = base_type(column.type)
    if base not in NESTED_TYPES or base == "array":
        return base != "string" or format != LOOSE
    if base == "map":
        return format != LOOSE
    is_loose = format == LOOSE
    names = {json_value.upper(name) if is_loose else name for name, _ in members}
    fields = {json_value.upper(name) if is_loose else name for name in field_types(column.type)}
    name = json_value.upper(column.name) if is_loose else column.name
    if is_loose:
        return name in names and name not in fields
    return name in names or not names & fields
