"""The Avro schema in which columns are written: the types of `lakehouse.plan.avro.schema_text`, in unions with null.

A timestamp is a timestamp-micros, or a timestamp-millis where a format says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakehouse.formats.values.text_value import precision_and_scale
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type, field_types, item_type
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import parse_schema_options

_WRITTEN_TYPES = {
    "string": AvroType("string"), "boolean": AvroType("boolean"), "tinyint": AvroType("int"),
    "smallint": AvroType("int"), "int": AvroType("int"), "bigint": AvroType("long"), "float": AvroType("float"),
    "double": AvroType("double"), "binary": AvroType("bytes"), "date": AvroType("int", logical="date"),
    "timestamp": AvroType("long", logical="timestamp-micros"),
}  # fmt: skip
_WRITTEN_IN_MILLIS = {**_WRITTEN_TYPES, "timestamp": AvroType("long", logical="timestamp-millis")}
_NULL = AvroType("null")


def avro_of_format(format: RecordFormat, columns: Sequence[Column], *, is_key: bool = False) -> AvroType:
    """Return the type in which a format in Avro writes columns, as its options say. is_key: see `avro_of_columns`."""
    options, is_bare = parse_schema_options(format.options), format.traits.is_bare
    return avro_of_columns(columns, options.name, is_key=is_key, is_bare=is_bare, has_millis=options.has_millis)


def avro_of_columns(
    columns: Sequence[Column], name: str, *, is_key: bool = False, is_bare: bool = False, has_millis: bool = False
) -> AvroType:
    """Return the type in which columns are written. name: the record's full name.

    is_key: a key of one column is its value alone, not null, as ksqlDB writes it. is_bare: so is any only column.
    has_millis: timestamps are milliseconds, and not microseconds.
    """
    plain_types = _WRITTEN_IN_MILLIS if has_millis else _WRITTEN_TYPES
    if is_bare or (is_key and len(columns) == 1 and base_type(columns[0].type) not in NESTED_TYPES):
        return written_type(columns[0].type, name, plain_types).branches[0]
    parts = tuple(written_type(column.type, f"{name}.{column.name}", plain_types) for column in columns)
    return AvroType("record", name, fields=tuple(column.name for column in columns), parts=parts)


def written_type(declared_type: str, name: str, plain_types: Mapping[str, AvroType] = _WRITTEN_TYPES) -> AvroType:
    """Return the union of null and a column's type. name: of the record, if it is a struct.

    plain_types: those with no other type in them, by their names.
    """
    base_name = base_type(declared_type)
    if base_name in plain_types:
        return AvroType("union", parts=(_NULL, plain_types[base_name]))
    if base_name == "decimal":
        precision, scale = precision_and_scale(declared_type)
        own_type = AvroType("bytes", logical="decimal", precision=precision, scale=scale)
    elif base_name == "struct":
        members = field_types(declared_type)
        parts = tuple(
            written_type(member_type, f"{name}.{member}", plain_types) for member, member_type in members.items()
        )
        own_type = AvroType("record", name, fields=tuple(members), parts=parts)
    else:
        own_type = AvroType(base_name, parts=(written_type(item_type(declared_type), f"{name}.item", plain_types),))
    return AvroType("union", parts=(_NULL, own_type))
