"""INSERT INTO ... VALUES: the record that it means."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.cast import cast
from lakehouse.ksql.catalog import Entry, listed
from lakehouse.ksql.expression import Visible
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.moments import leaving
from lakehouse.ksql.syntax.statement import InsertValues
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression import Expression
from lakehouse.semantics.moment import milliseconds


def record(statement: InsertValues, target: Entry) -> dict[str, Any]:
    """Return a record as a scenario has one: topic, key, value, and timestamp if given. Raises SqlError, NeedsSpark.

    A stream without a key has a null one. ROWTIME may be given; the other columns that are left out are null.
    """
    if target.query is not None or target.is_source:
        why = "it is written by its query" if target.query is not None else "it is a SOURCE, which is read-only"
        raise SqlError(f"cannot insert values into {target.name}: {why}", statement.at)
    names = statement.names or tuple(column.name for column in target.columns)
    if len(names) != len(statement.values):
        raise SqlError(f"expected {len(names)} values, one for each of {', '.join(names)}", statement.at,
                       found=str(len(statement.values)))  # fmt: skip
    kinds = {column.name: column.kind for column in target.columns}
    values: dict[str, Any] = {}
    time: dict[str, Any] = {}
    for name, value in zip(names, statement.values, strict=True):
        made = Visible(()).sql(value)
        if name == "ROWTIME":
            time = {"timestamp": _value(made)}
            continue
        if name not in kinds:
            raise SqlError(f"column name {name} does not exist", value.at, expected=listed(kinds))
        values[name] = _value(Sql(leaving(cast(made, kinds[name], value.at).text, kinds[name]), kinds[name]))
    columns = [column for column in target.columns if not column.is_key]
    key = [values.get(name) for name in target.made.key]
    if target.kind == "TABLE" and None in key:
        raise SqlError(f"a table's row needs its key: {', '.join(target.made.key)}", statement.at)
    row = {column.name: values.get(column.name) for column in columns}
    shown_value = row[columns[0].name] if target.formats[1] == "KAFKA" or not target.is_wrapped else row
    shown = None if not key else key[0] if len(key) == 1 else dict(zip(target.made.key, key, strict=True))
    return {"topic": target.topic, "key": shown, "value": shown_value, **time}


def _value(of: Sql) -> Any:
    value = evaluate(Expression(of.text), {})
    if isinstance(value, datetime):
        return milliseconds(value)
    return str(value) if isinstance(value, date) else value
