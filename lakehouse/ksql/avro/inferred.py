"""The columns that a CREATE does not name, out of the schemas that are pinned beside the file of statements.

As in ksqlDB, the columns of the key and of the value are inferred each by itself: where none of them is named, and
their format has a registry. Fields of a key's record are key columns, names are in upper case, and a key or a value
that is no record is a column ROWKEY or ROWVAL.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.avro.avro_kind import kind_of_avro, sql_name
from lakehouse.ksql.syntax.statement import CreateSource, SchemaElement
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.registered.pinned import read_pinned

_ALONE_NAMES = {"key": "ROWKEY", "value": "ROWVAL"}


def with_key_columns(statement: CreateSource, topic: str, kind: str, folder: Path, id: int | None) -> CreateSource:
    """Return a statement with the key columns of the topic's pinned schema of a kind. Raises SqlError.

    id: of the pinned schema that is meant instead.
    """
    role = "KEY" if statement.kind == "STREAM" else "PRIMARY KEY"
    try:
        key_type = _read_part_schema(
            statement, topic, kind, folder, "key", f"({_ALONE_NAMES['key']} BIGINT {role}, ...)", id
        )
        elements = _elements(key_type, statement, "key", role)
    except PlanError as error:
        raise SqlError(str(error), statement.position) from None
    return replace(statement, elements=(*elements, *statement.elements))


def with_value_columns(
    statement: CreateSource, topic: str, kind: str, folder: Path, id: int | None, *, is_wrapped: bool
) -> CreateSource:
    """Return a statement with the value columns of the topic's pinned schema of a kind. Raises SqlError.

    id: of the pinned schema that is meant instead. is_wrapped: a single value has a record around it.
    """
    try:
        value_type = _read_part_schema(statement, topic, kind, folder, "value", "(ID BIGINT, ...)", id)
        if is_wrapped and value_type.kind != "record":
            raise SqlError(
                f"the pinned schema of the values of topic {topic} is one {value_type} alone, without a record around "
                f"it. Give WRAP_SINGLE_VALUE=false: its column is {_ALONE_NAMES['value']} then",
                statement.position,
            )
        elements = _elements(value_type, statement, "value", "")
    except SqlError:
        raise
    except PlanError as error:
        raise SqlError(str(error), statement.position) from None
    return replace(statement, elements=(*statement.elements, *elements))


def _read_part_schema(
    statement: CreateSource, topic: str, kind: str, folder: Path, part_name: str, declaration: str, id: int | None
) -> AvroType:
    subject = f"{statement.kind} {statement.name}: {part_name}"
    return read_pinned(folder, topic, part_name, kind, subject, declaration=declaration, id=id)


def _elements(avro_type: AvroType, statement: CreateSource, part_name: str, role: str) -> tuple[SchemaElement, ...]:
    """Return the columns of a key or a value.

    Raises PlanError for a type that no column can have, or a name that another column has.
    """
    subject = f"{statement.kind} {statement.name}: {part_name}"
    if avro_type.kind == "record":
        fields = tuple(zip(avro_type.fields, avro_type.parts, strict=True))
        if not fields:
            raise PlanError(f"{subject}: {avro_type} has no fields, so there is no column. Name the columns")
    else:
        fields = ((_ALONE_NAMES[part_name], avro_type),)
    taken_names = {element.name for element in statement.elements}
    for name, _ in fields:
        if sql_name(name) in taken_names:
            raise PlanError(
                f"{subject}: duplicate column name: {sql_name(name)}. The pinned schema has a field {name!r}, and "
                "another column has its name in upper case. Give a key that is one value alone another name, or name "
                "the columns of the value yourself, without this one"
            )
        taken_names.add(sql_name(name))
    return tuple(
        SchemaElement(sql_name(name), kind_of_avro(part, f"{subject}: field {name!r}"), role,
                      position=statement.position)
        for name, part in fields
    )  # fmt: skip
