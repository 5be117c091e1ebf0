"""The Avro schema in which columns are written: the types of `lakehouse.plan.avro.schema_text`, in unions with null.

A timestamp is a timestamp-micros.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.formats.values.text_value import precision_and_scale
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.schema import Column, base_type, parse_type, type_text

_WRITTEN_TYPES = {
    "string": AvroType("string"), "boolean": AvroType("boolean"), "tinyint": AvroType("int"),
    "smallint": AvroType("int"), "int": AvroType("int"), "bigint": AvroType("long"), "float": AvroType("float"),
    "double": AvroType("double"), "binary": AvroType("bytes"), "date": AvroType("int", logical="date"),
    "timestamp": AvroType("long", logical="timestamp-micros"),
}  # fmt: skip
_NULL = AvroType("null")


def avro_of_columns(columns: Sequence[Column], name: str, *, is_key: bool = False) -> AvroType:
    """Return the type in which columns are written. name: the record's full name.

    is_key: a key of one column is its value alone, not null, as ksqlDB writes it.
    """
    if is_key and len(columns) == 1 and base_type(columns[0].type) not in ("struct", "array", "map"):
        return written_type(columns[0].type, name).branches[0]
    parts = tuple(written_type(column.type, f"{name}.{column.name}") for column in columns)
    return AvroType("record", name, fields=tuple(column.name for column in columns), parts=parts)


def member_types(struct_type: str) -> dict[str, str]:
    """Return the types of a struct's fields by their names, as they are written."""
    return {node.name: type_text(node.args["kind"], node.name) for node in parse_type(struct_type).expressions}


def item_type(declared_type: str) -> str:
    """Return the type of an array's items, or of a map's values."""
    return type_text(parse_type(declared_type).expressions[-1], declared_type)


def written_type(declared_type: str, name: str) -> AvroType:
    """Return the union of null and a column's type. name: of the record, if it is a struct."""
    base_name = base_type(declared_type)
    if base_name in _WRITTEN_TYPES:
        return AvroType("union", parts=(_NULL, _WRITTEN_TYPES[base_name]))
    if base_name == "decimal":
        precision, scale = precision_and_scale(declared_type)
        own_type = AvroType("bytes", logical="decimal", precision=precision, scale=scale)
    elif base_name == "struct":
        members = member_types(declared_type)
        parts = tuple(written_type(member_type, f"{name}.{member}") for member, member_type in members.items())
        own_type = AvroType("record", name, fields=tuple(members), parts=parts)
    else:
        own_type = AvroType(base_name, parts=(written_type(item_type(declared_type), f"{name}.item"),))
    return AvroType("union", parts=(_NULL, own_type))
