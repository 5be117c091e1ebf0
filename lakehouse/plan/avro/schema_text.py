"""The columns that an Avro schema has, as a declaration writes them.

| Avro                                              | column                                                   |
|---------------------------------------------------|----------------------------------------------------------|
| int, long, float, double, boolean, string, bytes  | int, bigint, float, double, boolean, string, binary      |
| enum; fixed                                       | string; binary                                           |
| decimal                                           | decimal of the same digits                               |
| date; timestamp-millis, timestamp-micros          | date; timestamp                                          |
| timestamp-nanos, local-timestamp-*, time-*        | the number: no type of a table holds such a time exactly |
| a union with null; of int and long, float, double | the other type; the wider one                            |
| record, array, map                                | struct, array, map<string, ...>                          |
"""

from __future__ import annotations

from lakehouse.errors import PlanError
from lakehouse.plan.avro.avro_schema import ISO_DATE, ISO_TIMESTAMP, AvroType
from lakehouse.plan.names.field import IDENTIFIER, quote_field, suggest_name
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

NUMBER_TYPES = {"int": "int", "long": "bigint", "float": "float", "double": "double"}
_PLAIN_TYPES = {**NUMBER_TYPES, "boolean": "boolean", "string": "string", "bytes": "binary", "enum": "string",
                "fixed": "binary", "null": "string"}  # fmt: skip
_TIMESTAMPS = (ISO_TIMESTAMP, "timestamp-millis", "timestamp-micros")
_MOMENT_TYPES = {"date": "date", ISO_DATE: "date", **dict.fromkeys(_TIMESTAMPS, "timestamp")}
_NULL = AvroType("null")


def schema_text(avro_type: AvroType, subject: str) -> str:
    """Return the columns of a record's fields: "id bigint, name string".

    Raises PlanError for another type than a record, or a field that no type of a column can hold.
    """
    if avro_type.kind != "record":
        raise PlanError(f"{subject}: expected a record with fields, found {avro_type}. Declare the columns.")
    columns = []
    for name, column_type in column_types(avro_type, subject).items():
        own_name = name if IDENTIFIER.fullmatch(name) else suggest_name(name)
        columns.append(f"{own_name} {column_type}" + (f" from {quote_field(name)}" if own_name != name else ""))
    return ", ".join(columns)


def column_types(avro_type: AvroType, subject: str) -> dict[str, str]:
    """Return the types of the columns by their fields' names; of one value alone by the name "". Raises PlanError."""
    if avro_type.kind != "record":
        return {"": type_of_avro(avro_type, subject)}
    if not avro_type.fields:
        raise PlanError(f"{subject}: expected a record with fields, found {avro_type}. Declare the columns.")
    parts = zip(avro_type.fields, avro_type.parts, strict=True)
    return {name: type_of_avro(part, f"{subject}: field {name!r}") for name, part in parts}


def type_of_avro(avro_type: AvroType, subject: str) -> str:
    """Return the type of a column for an Avro type. Raises PlanError where there is none."""
    branches = avro_type.branches
    if len(branches) > 1:
        for wider, types in (("double", ("float", "double")), ("bigint", ("int", "long"))):
            if all(branch.kind in types and not branch.logical for branch in branches):
                return wider
        raise PlanError(f"{subject}: {avro_type} is no type of a column. Declare the columns, without this one.")
    own_type = branches[0] if branches else _NULL
    if own_type.logical == "decimal":
        # Kafka Connect's converter writes 64 digits for every decimal: each value is judged by its own.
        precision = min(own_type.precision, DECIMAL_DIGITS_MAX)
        if own_type.scale > precision:
            raise PlanError(f"{subject}: {own_type} has more than {precision} digits. Declare the columns.")
        return f"decimal({precision}, {own_type.scale})"
    match own_type.kind:
        case "record":
            parts = zip(own_type.fields, own_type.parts, strict=True)
            members = ", ".join(f"`{name}`: {type_of_avro(part, f'{subject}.{name}')}" for name, part in parts)
            if not members:
                raise PlanError(f"{subject}: {own_type} has no fields. Declare the columns, without this one.")
            return f"struct<{members}>"
        case "array":
            return f"array<{type_of_avro(own_type.parts[0], subject)}>"
        case "map":
            return f"map<string, {type_of_avro(own_type.parts[0], subject)}>"
    return _MOMENT_TYPES.get(own_type.logical) or _PLAIN_TYPES[own_type.kind]
