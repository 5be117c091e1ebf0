"""A plan as text: what reads what, and what becomes of it. Each node gives its own lines (`lines`)."""

from __future__ import annotations

from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, has_state_topic
from lakehouse.plan.operator import IN_TEXT
from lakehouse.plan.schema import state_topic
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table


def describe(item: App | Table | Stream) -> str:
    """Return a declaration as indented text, one line per step; a table, or stream, with the tables that it reads."""
    if isinstance(item, App):
        return "\n".join([*map(_table, item.tables), *map(_sink, item.sinks), *map(_function, item.functions)])
    own, stream = (_table(item), item.stream) if isinstance(item, Table) else (_stream(item), item)
    return "\n".join([own, *map(_table, reversed(stream.tables))])


def _sink(sink: Sink) -> str:
    of = f"table {sink.of.name}, {sink.mode} changelog" if isinstance(sink.of, Table) else _stream(sink.of)
    by = f" PARTITION BY {sink.partition_by}" if sink.partition_by else ""
    line = f"TOPIC {sink.topic}{by} <- {of}"
    kept = f"TOPIC {state_topic(sink.topic)} <- what the table keeps and that changelog leaves out"
    return f"{line}\n{kept}" if has_state_topic(sink) else line


def _function(sink: FunctionSink) -> str:
    return f"FUNCTION {sink.name} <- {_stream(sink.of)}"


def _table(table: Table) -> str:
    behind = sorted(table.behind, key=lambda operator: IN_TEXT.index(type(operator)))
    lines = [line for operator in (table.fold, *behind) for line in operator.lines()]
    lines = [*lines, *table.stream.lines()]
    return "\n".join([f"TABLE {table.name} (key {', '.join(table.key)})", *(f"  {line}" for line in lines)])


def _stream(stream: Stream) -> str:
    return "\n".join(stream.lines())
