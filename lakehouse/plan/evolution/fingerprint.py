"""A table's declaration as one JSON value: what decides its content, in a form that can be kept and compared.

Two declarations with one fingerprint give the same table from the same bronze. It is written into the table; see
`lakehouse.plan.evolution.change` for what a difference means. Left out is what decides nothing:

    how SQL is written        white space, comments, the case of functions, `!=` for `<>`: expressions are parsed and
                              written anew. The case of a column's name stays, for it can become a field's name.
    what nothing reads        columns that a select or a map makes and no later step reads; columns that a select
                              only passes on; the order of columns of select, agg and a JSON schema
    the names of functions    a digest of their source stands for them, see `lakehouse.plan.function`
    the table's own name      a fingerprint says what a table of any name would hold
    own_table                 where a topic's rows lie is bronze's affair, see `lakehouse.run.start.changing`

`"beside"` holds what does not decide which values rows have, only when and where something leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, assert_never

import sqlglot
from sqlglot import exp

from lakehouse.plan.aggregation import NamedAggregation
from lakehouse.plan.expression import Expression, Named, expression_type
from lakehouse.plan.function import digest, value_text
from lakehouse.plan.schema import Column
from lakehouse.plan.step import ChangesOf, Explode, Filter, Map, Merge, Rekey, Select, Source, Step, TableJoin
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.window import Hopping, Session, Window

VERSION = 1
SQL = "$sql"  # no column has such a name

Json = dict[str, Any]


def fingerprint(table: Table) -> Json:
    """Return what decides the content of a table, as a value that JSON can hold."""
    if table.is_latest:
        types = {column.name: column.type for column in table.stream.columns}
        key: dict[str, str | None] = {name: types[name] or None for name in table.key}
        read = {name.lower() for name in types}
        shown: Json = {"columns": sorted(name for name in types if name not in table.key)}
    else:
        key = {item.name: expression_type(item.expression, table.stream.columns) for item in table.group_by}
        arguments = [item.argument for item in table.aggregations if item.argument is not None]
        read = _read([*arguments, *(item.expression for item in table.group_by)])
        shown = {
            "group_by": _named(table.group_by),
            "aggregates": {item.name: _aggregate(item) for item in table.aggregations},
        }
    read |= _read([table.order_by] if table.order_by is not None else [])
    return {
        "version": VERSION,
        "key": list(map(list, key.items())),
        **shown,
        "order_by": _sql(table.order_by),
        "window": _window(table.window),
        "having": _sql(table.having),
        "emit": table.emit,
        "stream": _stream(table.stream, read, keyed=table.is_latest),
        "beside": {"suppress": table.suppress, "retention": table.retention, "idle": table.idle},
    }


def as_text(value: Json) -> str:
    """Return a fingerprint as one line of JSON, always the same for the same."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return SQL text in one form."""
    try:
        trees = sqlglot.parse(f"SELECT {text}", read="spark")
    except sqlglot.errors.SqlglotError:
        return text  # another release's text, which this one can't read
    select = trees[0]
    if not isinstance(select, exp.Select):
        return text
    return str(select.expressions[0].sql("spark", identify=True, comments=False))


def _sql(item: Expression | None) -> Json | None:
    return None if item is None else {SQL: canonical(item.text)}


def _named(items: Iterable[Named]) -> Json:
    return {item.name: _sql(item.expression) for item in items}


def _aggregate(item: NamedAggregation) -> Json:
    options = {
        name: {"function": digest(value)} if callable(value) else value_text(value)
        for name, value in item.options
        if value is not None
    }
    return {"kind": item.kind, "argument": _sql(item.argument), "options": options}


def _window(window: Window | None) -> Json | None:
    match window:
        case None:
            return None
        case Hopping():
            return {"kind": "hopping", "size": window.size, "advance": window.advance, "grace": window.grace}
        case Session():
            return {"kind": "session", "gap": window.gap, "grace": window.grace}
    return {"kind": "sliding", "difference": window.difference, "grace": window.grace}


def _stream(stream: Stream, read: set[str], *, keyed: bool) -> Json:
    """A stream, as far as the columns `read` (in lower case) are made of it.

    keyed: its key is read, too, and whether it is null: a table of latest values does.
    """
    steps = []
    for step in reversed(stream.steps):
        made, read = _step(step, read, keyed=keyed)
        steps += [made] if made is not None else []
    match stream.source:
        case Merge(streams):
            origin: Json = {"merge": [_stream(part, read, keyed=keyed) for part in streams]}
        case ChangesOf(table):
            origin = _upstream("changes_of", table)
        case TableJoin(joined, table, on, how, prefix):
            inner = _stream(joined, read | _read(on), keyed=keyed)
            by = {"on": [_sql(item) for item in on], "how": how, "prefix": prefix}
            origin = {**_upstream("join", table), "stream": inner, **by}
        case Source():
            origin = _source(stream.source, read)
    return {**origin, "steps": steps[::-1]}


def _upstream(what: str, table: Table) -> Json:
    """A table that is read: its name. What its declaration changes reaches the reader as changes of its rows."""
    above = [upstream.name for upstream in (*table.stream.tables, table)]
    beside = {"name": table.name, "topics": sorted(table.stream.topics), "tables": sorted(above)}
    return {what: table.name, "key": [[c.name, c.type] for c in table.columns if c.name in table.key], "beside": beside}


def _step(step: Step, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
    """A step and the columns that are read before it; None for a step that makes nothing that is read."""
    match step:
        case Filter(predicate):
            return {"filter": _sql(predicate)}, read | _read([predicate])
        case Select(columns):
            return _columns("select", columns, read)
        case Rekey(columns) if keyed:
            names = {item.name.lower() for item in columns}
            return {"rekey": _named(columns)}, (read - names) | _read(item.expression for item in columns)
        case Rekey(columns):
            return _columns("select", columns, read)
        case Explode(column):
            name = column.name.lower()
            return {"explode": _named([column])}, (read - {name}) | _read([column.expression])
        case Map():
            if step.name.lower() not in read:
                return None, read
            made = {"type": step.type, "arguments": list(map(_sql, step.arguments)), "function": digest(step.function)}
            return {"map": {step.name: made}}, (read - {step.name.lower()}) | _read(step.arguments)
    assert_never(step)


def _columns(what: str, columns: Iterable[Named], read: set[str]) -> tuple[Json | None, set[str]]:
    made = [item for item in columns if item.name.lower() in read and not item.is_plain]
    before = (read - {item.name.lower() for item in made}) | _read(item.expression for item in made)
    return ({what: _named(made)} if made else None), before


def _read(expressions: Iterable[Expression]) -> set[str]:
    """The columns that expressions read. A lambda's own names are among them, which does no harm."""
    return {name.lower() for item in expressions for name in item.columns()}


def _source(source: Source, read: set[str]) -> Json:
    read = read | _read([source.event_time] if source.event_time is not None else [])
    # A JSON field is found by its name; in a line of CSV the place counts, and one field more is another line.
    beside: Json = {"name": source.name}
    value: Any = [[column.name, column.type] for column in source.value]
    if source.value_format == "json":
        value = _types(column for column in source.value if column.name.lower() in read)
        beside["unread"] = _types(column for column in source.value if column.name.lower() not in read)
    return {
        "topic": source.topic,
        "key_format": source.key_format,
        "key": [[column.name, column.type] for column in source.key],
        "value_format": source.value_format,
        "value": value,
        "event_time": _sql(source.event_time),
        "beside": beside,
    }


def _types(columns: Iterable[Column]) -> dict[str, str]:
    return {column.name: column.type for column in columns}
