"""INSERT INTO ... VALUES, and ASSERT: the records that they mean, and what is declared."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.cast import cast
from lakehouse.ksql.catalog import BOUNDS, Entry, listed
from lakehouse.ksql.expression import Visible
from lakehouse.ksql.function import call
from lakehouse.ksql.function.sql import Sql, literal
from lakehouse.ksql.moments import leaving
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import AssertSource, AssertValues, InsertValues
from lakehouse.ksql.syntax.tree import Name, Value
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression import Expression
from lakehouse.plan.names.field import field_name
from lakehouse.semantics.moment import to_milliseconds


def record(statement: InsertValues, target: Entry, *, is_expected: bool = False) -> dict[str, Any]:
    """Return a record as a scenario has one: topic, key, value, and timestamp if given. Raises SqlError, NeedsSpark.

    is_expected: it is not inserted: it is what a query is expected to write, with names for single values.

    A stream without a key has a null one. ROWTIME may be given; the other columns that are left out are null.
    """
    is_written = target.query is not None or target.over
    if (is_written or target.is_source) and not is_expected:
        why = "it is written by its query" if is_written else "it is a SOURCE, which is read-only"
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
        if kinds[name] == k.BYTES and made.literal is not None:
            made = call.made("TO_BYTES", [made, literal("base64")], value.at)  # as JSON has them
        values[name] = _value(Sql(leaving(cast(made, kinds[name], value.at).text, kinds[name]), kinds[name]))
        if values[name] is None and made.literal is not None:
            raise SqlError(f"column {name} takes {kinds[name]}", value.at, found=repr(made.literal))
    columns = [column for column in target.columns if not column.is_key]
    key = [_named(values.get(name), kinds[name]) for name in target.made.key]
    if target.kind == "TABLE" and None in key:
        raise SqlError(f"a table's row needs its key: {', '.join(target.made.key)}", statement.at)
    kinds = {name: kind for name, kind in kinds.items() if name in values}
    values = {name: _named(values[name], kind) for name, kind in kinds.items()}
    row = {field_name(column.name): values.get(column.name) for column in columns}
    is_bare = (target.formats[1] == "KAFKA" or not target.is_wrapped) and not is_expected
    shown_value = values.get(columns[0].name) if is_bare else row
    shown = (
        None if not key else key[0] if len(key) == 1 else dict(zip(map(field_name, target.made.key), key, strict=True))
    )
    return {"topic": target.topic, "key": shown, "value": shown_value, **time}


def _named(value: Any, kind: Kind) -> Any:
    """A value whose structs have the names of fields."""
    if value is None or not kind.inner:
        return value
    if kind.name == "STRUCT":
        return {field_name(n): _named(value.get(n), of) for n, of in zip(kind.names, kind.inner, strict=True)}
    if kind.name == "MAP":
        return {name: _named(item, kind.inner[1]) for name, item in value.items()}
    return [_named(item, kind.inner[0]) for item in value]


def _value(of: Sql) -> Any:
    value = evaluate(Expression(of.text), {})
    if isinstance(value, datetime):
        return to_milliseconds(value)
    return str(value) if isinstance(value, date) else value


def check_source(statement: AssertSource, known: Entry) -> None:
    """Raise SqlError where a stream or a table is not declared as the statement says: columns, topic, formats."""
    if known.kind != statement.kind:
        raise SqlError(f"{known.name} is a {known.kind}, and not a {statement.kind}", statement.at)
    if statement.elements:
        wanted = [(element.name, element.kind, bool(element.role)) for element in statement.elements]
        if sorted(wanted, key=str) != sorted(((c.name, c.kind, c.is_key) for c in known.columns), key=str):
            shown = ", ".join(f"{c.name} {c.kind}{' KEY' * c.is_key}" for c in known.columns)
            raise SqlError(f"{known.name} has other columns: {shown}", statement.at)
    key, value = known.formats
    facts = {"KAFKA_TOPIC": known.topic, "KEY_FORMAT": key, "VALUE_FORMAT": value, "PARTITIONS": known.partitions}
    for name, given in statement.properties.items():
        wanted_text = given.name if isinstance(given, Name) else str(given.value)
        names = ("KEY_FORMAT", "VALUE_FORMAT") if name == "FORMAT" else (name,)
        for of in names:
            found = str(facts.get(of, wanted_text))
            same = found == wanted_text if of == "KAFKA_TOPIC" else found.upper() == wanted_text.upper()
            if not same:
                raise SqlError(f"{of} of {known.name} is {found}, and not {wanted_text}", given.at)


def expected(statement: AssertValues, known: Entry) -> dict[str, Any]:
    """Return the record that ASSERT VALUES expects, as a scenario's output; ASSERT NULL VALUES expects no value.

    ROWTIME, WINDOWSTART and WINDOWEND are compared if they are named; other columns that are not named are null.
    """
    if known.query is None and not known.inserts:
        raise SqlError(f"ASSERT VALUES is for what a query writes, and nothing writes to {known.name}", statement.at)
    bounds: dict[str, int] = {}
    names, values = [], []
    for name, value in zip(statement.names, statement.values, strict=False):
        if name in BOUNDS and known.is_windowed:
            if not isinstance(value, Value) or not isinstance(value.value, int):
                raise SqlError(f"{name} is a number of milliseconds", value.at)
            bounds[name] = value.value
        else:
            names.append(name)
            values.append(value)
    made = record(InsertValues(known.name, tuple(names), tuple(values), at=statement.at), known, is_expected=True)
    if statement.is_null:
        made["value"] = None
    if bounds:
        made["window"] = {"start": bounds.get("WINDOWSTART"), "end": bounds.get("WINDOWEND")}
    return made
