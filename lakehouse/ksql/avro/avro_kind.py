"""ksqlDB's types for Avro's.

| Avro                                              | ksqlDB                                  |
|---------------------------------------------------|-----------------------------------------|
| int, long, boolean, string, bytes                 | INTEGER, BIGINT, BOOLEAN, STRING, BYTES |
| float, double                                     | DOUBLE                                  |
| enum; fixed                                       | STRING; BYTES                           |
| decimal; date; time-millis                        | DECIMAL; DATE; TIME                     |
| timestamp-millis, timestamp-micros                | TIMESTAMP                               |
| other times                                       | the number                              |
| record, array, map                                | STRUCT, ARRAY, MAP                      |
| a union with null; of int and long, float, double | the other type; the wider one           |
"""

from __future__ import annotations

from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.avro.schema_text import type_of_avro
from lakehouse.plan.names.field import column_name

_PLAIN_KINDS = {
    "int": k.INTEGER, "bigint": k.BIGINT, "float": k.DOUBLE, "double": k.DOUBLE, "boolean": k.BOOLEAN,
    "string": k.STRING, "binary": k.BYTES, "date": k.DATE, "timestamp": k.TIMESTAMP,
}  # fmt: skip
_TIME_OF_DAY = "time-millis"


def sql_name(field: str) -> str:
    """Return the name that SQL gives to a field: in upper case, with other characters than letters and digits spelt."""
    return column_name(field.upper())


def kind_of_avro(avro_type: AvroType, subject: str) -> Kind:
    """Return ksqlDB's type for one of Avro's. Raises PlanError where there is none."""
    column_type = type_of_avro(avro_type, subject)
    (own_type, *_) = avro_type.branches or (avro_type,)
    match own_type.kind:
        case "record":
            members = zip(own_type.fields, own_type.parts, strict=True)
            return k.struct_of({sql_name(name): kind_of_avro(part, f"{subject}.{name}") for name, part in members})
        case "array":
            return k.array_of(kind_of_avro(own_type.parts[0], subject))
        case "map":
            return k.map_of(k.STRING, kind_of_avro(own_type.parts[0], subject))
    if own_type.logical == "decimal":
        return k.decimal_of(own_type.precision, own_type.scale)
    return k.TIME if own_type.logical == _TIME_OF_DAY else _PLAIN_KINDS[column_type]
