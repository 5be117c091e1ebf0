"""The JSON Schema (draft 7) in which columns are written, as a registry takes it.

Each object is closed: in an open one, a registry holds a new property for incompatible. Each property may be null.

| column                      | in the schema                                           |
|-----------------------------|---------------------------------------------------------|
| integers                    | integer                                                 |
| decimal                     | number                                                  |
| float, double               | number, or one of the texts NaN, Infinity and -Infinity |
| boolean, string             | boolean, string                                         |
| binary                      | string, contentEncoding base64                          |
| date, timestamp             | string, format date or date-time; or integer, if a format writes them as numbers |
| struct; array; map          | a closed object; array; an object of additionalProperties |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from lakehouse.plan.expression.schema import Column, base_type, parse_type

_DRAFT = "http://json-schema.org/draft-07/schema#"
_INTEGER = {"type": "integer"}
_PLAIN_TYPES: dict[str, dict[str, str]] = {
    "tinyint": _INTEGER, "smallint": _INTEGER, "int": _INTEGER, "bigint": _INTEGER,
    "decimal": {"type": "number"},
    "boolean": {"type": "boolean"}, "string": {"type": "string"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"}, "timestamp": {"type": "string", "format": "date-time"},
}  # fmt: skip
_MOMENTS, _DOUBLES = ("date", "timestamp"), ("float", "double")
# A double that is no number of JSON is written as its name, as Kafka Connect does.
_DOUBLE_SCHEMAS = ({"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]})


def object_schema(columns: Sequence[Column], title: str, *, has_number_moments: bool) -> str:
    """Return the text of the schema of an object with a property for each column."""
    types_by_name = {column.name: parse_type(column.type) for column in columns}
    return _schema_document(title, _closed_object(types_by_name, has_number_moments))


def bare_schema(column: Column, title: str, *, is_nullable: bool, has_number_moments: bool) -> str:
    """Return the text of the schema of a column's value alone, without an object around it."""
    own_type = _type_schema(parse_type(column.type), has_number_moments)
    return _schema_document(title, _or_null(own_type) if is_nullable else own_type)


def title_of(text: str) -> str:
    """Return the title of a JSON Schema's text; empty if it has none."""
    try:
        content = json.loads(text)
    except ValueError:
        return ""
    title = content.get("title") if isinstance(content, dict) else None
    return title if isinstance(title, str) else ""


def _schema_document(title: str, content: dict[str, Any]) -> str:
    return json.dumps({"$schema": _DRAFT, "title": title, **content}, ensure_ascii=False)


def _closed_object(types_by_name: dict[str, exp.DataType], has_number_moments: bool) -> dict[str, Any]:
    properties = {name: _or_null(_type_schema(part, has_number_moments)) for name, part in types_by_name.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _or_null(content: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, *content.get("oneOf", [content])]}


def _type_schema(part: exp.DataType, has_number_moments: bool) -> dict[str, Any]:
    """Return the schema of values of a type that are not null."""
    base_name = base_type(part.sql("spark"))
    if base_name == "struct":
        members = {member.name: member.args["kind"] for member in part.expressions}
        return _closed_object(members, has_number_moments)
    if base_name in ("array", "map"):
        items = _or_null(_type_schema(part.expressions[-1], has_number_moments))
        return {"type": "array", "items": items} if base_name == "array" else _open_object(items)
    if base_name in _DOUBLES:
        return {"oneOf": list(_DOUBLE_SCHEMAS)}
    # A type that only Spark has may be anything in JSON.
    return dict(_INTEGER if has_number_moments and base_name in _MOMENTS else _PLAIN_TYPES.get(base_name, {}))


def _open_object(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}
