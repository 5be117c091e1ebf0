"""INSERT INTO ... VALUES and ASSERT: their records, and the declarations that ASSERT checks."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, Entry, list_choices
from lakehouse.ksql.expression.cast import cast
from lakehouse.ksql.expression.common_types import coerce_literal
from lakehouse.ksql.expression.expression import ColumnScope
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.function.topic_moment import sql_to_topic
from lakehouse.ksql.property import property_text, traits_of_sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import AssertSource, AssertValues, InsertValues
from lakehouse.ksql.syntax.tree import Expr, Value
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.expression.field_names import name_fields
from lakehouse.plan.names.field import field_name
from lakehouse.semantics.epoch_time import to_milliseconds


def values_record(statement: InsertValues, target: Entry, *, is_expected: bool = False) -> dict[str, Any]:
    """Return a record in a scenario's form: topic, key, value, and timestamp if given. Raises SqlError, NeedsSpark.

    is_expected: a query is expected to write the record, nothing inserts it; single values have names then.

    A stream without a key gets a null key. ROWTIME may be given; other columns that are left out are null. Columns of
    headers are no part of the record, and can't be given.
    """
    has_query = target.query is not None or target.writer_name
    if (has_query or target.is_source or target.unwritten_format) and not is_expected:
        reason = "it is written by its query" if has_query else "it is a SOURCE, which is read-only"
        if target.unwritten_format:
            reason = f"others write records in {target.unwritten_format}"
        raise SqlError(f"cannot insert values into {target.name}: {reason}", statement.position)
    columns = [column for column in target.columns if column.name not in target.header_names]
    column_names = statement.names or tuple(column.name for column in columns)
    _check_count(column_names, statement)
    if named_headers := [name for name in column_names if name in target.header_names]:
        raise SqlError(
            f"cannot insert into HEADER columns: {', '.join(named_headers)}. Leave them out", statement.position
        )
    if repeated_names := [name for name in dict.fromkeys(column_names) if column_names.count(name) > 1]:
        raise SqlError(f"the column {repeated_names[0]} is named twice", statement.position)
    kinds_by_name = {column.name: column.kind for column in columns}
    values_by_name: dict[str, Any] = {}
    timestamp_entry: dict[str, Any] = {}
    for column_name, value_node in zip(column_names, statement.values, strict=True):
        if column_name == "ROWTIME":
            timestamp_entry = {"timestamp": _row_time(ColumnScope(()).sql(value_node), value_node.position)}
            continue
        if column_name not in kinds_by_name:
            raise SqlError(
                f"column name {column_name} does not exist", value_node.position, expected=list_choices(kinds_by_name)
            )
        kind = kinds_by_name[column_name]
        format = target.formats[0 if column_name in target.relation.key else 1]
        values_by_name[column_name] = _topic_value(_column_value(column_name, kind, value_node), kind, format)
    value_columns = [column for column in columns if not column.is_key]
    key_values = [
        name_fields(values_by_name.get(column_name), kinds_by_name[column_name].spark)
        for column_name in target.relation.key
    ]
    if target.kind == "TABLE" and None in key_values:
        raise SqlError(f"a table's row needs its key: {', '.join(target.relation.key)}", statement.position)
    kinds_by_name = {
        column_name: column_kind for column_name, column_kind in kinds_by_name.items() if column_name in values_by_name
    }
    values_by_name = {
        column_name: name_fields(values_by_name[column_name], column_kind.spark)
        for column_name, column_kind in kinds_by_name.items()
    }
    value_row = {field_name(column.name): values_by_name.get(column.name) for column in value_columns}
    is_bare = (traits_of_sql(target.formats[1]).is_single or not target.is_wrapped) and not is_expected
    shown_value = values_by_name.get(value_columns[0].name) if is_bare else value_row
    shown_key = (
        None
        if not key_values
        else key_values[0]
        if len(key_values) == 1
        else dict(zip(map(field_name, target.relation.key), key_values, strict=True))
    )
    return {"topic": target.topic, "key": shown_key, "value": shown_value, **timestamp_entry}


def _check_count(column_names: tuple[str, ...], statement: InsertValues | AssertValues) -> None:
    if len(column_names) != len(statement.values):
        raise SqlError(
            f"expected {len(column_names)} values, one for each of {', '.join(column_names)}",
            statement.position,
            found=str(len(statement.values)),
        )


def _column_value(name: str, kind: Kind, node: Expr) -> Sql:
    """Return a value as its column's type. Raises SqlError for a value that would not stay the same, unlike CAST."""
    value_sql = ColumnScope(()).sql(coerce_literal(node, kind))
    cast_sql = cast(value_sql, kind, node.position)
    refusal = partial(SqlError, f"column {name} takes {kind}", node.position)
    if not _takes(kind, value_sql.kind):
        raise refusal(found=str(value_sql.kind), expected=f"a value of its type, such as CAST(... AS {kind})")
    value = evaluate(Expression(value_sql.text), {})
    if not _is_kept(value, evaluate(Expression(cast_sql.text), {})):
        raise refusal(found=repr(value) if isinstance(value, str) else str(value))
    return cast_sql


def _takes(kind: Kind, value_kind: Kind) -> bool:
    """Say whether a column of a type takes values of another: of a narrower number, or a text that is read as one."""
    if value_kind.is_null or value_kind == kind:
        return True
    if kind.name != value_kind.name:
        if kind.is_number and value_kind.is_number:
            return k.NUMBERS.index(value_kind.name) < k.NUMBERS.index(kind.name)
        return value_kind == k.STRING and kind.name in (*k.MOMENTS, "BYTES")
    if kind.name != "STRUCT":  # a DECIMAL that has other digits takes those values that fit
        return all(map(_takes, kind.inner, value_kind.inner))
    value_kinds = dict(zip(value_kind.names, value_kind.inner, strict=True))
    return all(
        _takes(field_kind, value_kinds.get(field_name, k.NULL))
        for field_name, field_kind in zip(kind.names, kind.inner, strict=True)
    )


def _is_kept(value: Any, cast_value: Any) -> bool:
    """Say whether a cast has kept a value: it has become no null, and has lost no digits."""
    match cast_value:
        case None:
            return value is None
        case Decimal():
            return bool(value == cast_value)
        case list():
            return all(map(_is_kept, value, cast_value))
        case dict():
            return all(_is_kept(value.get(name), part) for name, part in cast_value.items())
    return True


def _row_time(value_sql: Sql, position: int) -> int | None:
    """Return a record's time; None for NULL: the time at which it is written. Raises SqlError for another value."""
    row_time = _evaluate_sql(value_sql)
    is_time = value_sql.kind.is_whole or value_sql.kind in (k.TIMESTAMP, k.NULL)
    if not is_time or (row_time is not None and row_time < 0):
        raise SqlError("ROWTIME takes milliseconds since 1970", position, found=value_sql.literal or value_sql.text)
    return None if row_time is None else int(row_time)


def _topic_value(value_sql: Sql, kind: Kind, format: str) -> Any:
    """Return a value in a scenario's form: a moment is a number, or a text where the format has types for moments."""
    if traits_of_sql(format).has_moments:
        return evaluate(Expression(value_sql.text), {})
    return _evaluate_sql(Sql(sql_to_topic(value_sql.text, kind), kind))


def _evaluate_sql(value_sql: Sql) -> Any:
    value = evaluate(Expression(value_sql.text), {})
    if isinstance(value, datetime):
        return to_milliseconds(value)
    return str(value) if isinstance(value, date) else value


def check_source(statement: AssertSource, entry: Entry) -> None:
    """Raise SqlError where a declaration differs from the statement's: columns, topic, formats."""
    if entry.kind != statement.kind:
        raise SqlError(f"{entry.name} is a {entry.kind}, and not a {statement.kind}", statement.position)
    if statement.elements:
        expected_columns = [(element.name, element.kind, element.is_key) for element in statement.elements]
        if sorted(expected_columns, key=str) != sorted(
            ((entry_column.name, entry_column.kind, entry_column.is_key) for entry_column in entry.columns), key=str
        ):
            column_text = ", ".join(
                f"{entry_column.name} {entry_column.kind}{' KEY' * entry_column.is_key}"
                for entry_column in entry.columns
            )
            raise SqlError(f"{entry.name} has other columns: {column_text}", statement.position)
    key_format, value_format = entry.formats
    entry_facts: dict[str, object] = {
        "KAFKA_TOPIC": entry.topic,
        "KEY_FORMAT": key_format,
        "VALUE_FORMAT": value_format,
        "PARTITIONS": entry.partitions,
        "WRAP_SINGLE_VALUE": entry.is_wrapped,
    }
    if entry.created is not None:
        declared_facts = {name: property_text(value) for name, value in entry.created.properties.items()}
        entry_facts = {**declared_facts, **entry_facts}
    for name, property_value in statement.properties.items():
        expected_text = property_text(property_value)
        names = ("KEY_FORMAT", "VALUE_FORMAT") if name == "FORMAT" else (name,)
        for fact_name in names:
            if fact_name not in entry_facts:
                raise SqlError(
                    f"{entry.name} is declared without {fact_name}, or it can't be compared",
                    property_value.position,
                    expected=list_choices(entry_facts),
                )
            actual_text = str(entry_facts[fact_name])
            is_same = (
                actual_text == expected_text
                if fact_name == "KAFKA_TOPIC"
                else actual_text.upper() == expected_text.upper()
            )
            if not is_same:
                raise SqlError(
                    f"{fact_name} of {entry.name} is {actual_text}, and not {expected_text}", property_value.position
                )


def expected_record(statement: AssertValues, entry: Entry) -> dict[str, Any]:
    """Return the record that ASSERT VALUES expects, as a scenario's output; ASSERT NULL VALUES expects no value.

    ROWTIME, WINDOWSTART and WINDOWEND are compared if they are named; other columns that are not named are null.
    """
    if entry.query is None and not entry.insert_queries:
        raise SqlError(
            f"ASSERT VALUES is for what a query writes, and nothing writes to {entry.name}", statement.position
        )
    _check_count(statement.names, statement)
    bounds: dict[str, int] = {}
    column_names, value_nodes = [], []
    for name, value in zip(statement.names, statement.values, strict=True):
        if name in BOUNDS and entry.is_windowed:
            if not isinstance(value, Value) or not isinstance(value.value, int):
                raise SqlError(f"{name} is a number of milliseconds", value.position)
            bounds[name] = value.value
        else:
            column_names.append(name)
            value_nodes.append(value)
    output_record = values_record(
        InsertValues(entry.name, tuple(column_names), tuple(value_nodes), position=statement.position),
        entry,
        is_expected=True,
    )
    if statement.is_null:
        output_record["value"] = None
    if bounds:
        output_record["window"] = {"start": bounds.get("WINDOWSTART"), "end": bounds.get("WINDOWEND")}
    return output_record
