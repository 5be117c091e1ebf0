"""A plan as text: the inputs, steps and operators of each table and sink. Each node gives its own lines (`lines`)."""

from __future__ import annotations

from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, has_state_topic
from lakehouse.plan.names.beside_topic import state_topic
from lakehouse.plan.operator import IN_TEXT
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table


def declaration_text(item: App | Table | Stream) -> str:
    """Return a declaration as indented text, one line per step; a table, or stream, with the tables that it reads."""
    if isinstance(item, App):
        return "\n".join(
            [*map(_table_text, item.tables), *map(_sink_text, item.sinks), *map(_function_sink_text, item.functions)]
        )
    own_text, stream = (_table_text(item), item.stream) if isinstance(item, Table) else (_stream_text(item), item)
    return "\n".join([own_text, *map(_table_text, reversed(stream.tables))])


def _sink_text(sink: Sink) -> str:
    source_text = (
        f"table {sink.source.name}, {sink.mode} changelog"
        if isinstance(sink.source, Table)
        else _stream_text(sink.source)
    )
    partition_text = f" PARTITION BY {sink.partition_by}" if sink.partition_by else ""
    topic_line = f"TOPIC {sink.topic}{partition_text} <- {source_text}"
    state_line = f"TOPIC {state_topic(sink.topic)} <- what the table keeps and that changelog leaves out"
    return f"{topic_line}\n{state_line}" if has_state_topic(sink) else topic_line


def _function_sink_text(sink: FunctionSink) -> str:
    return f"FUNCTION {sink.name} <- {_stream_text(sink.source)}"


def _table_text(table: Table) -> str:
    later_operators = sorted(table.later_operators, key=lambda operator: IN_TEXT.index(type(operator)))
    operator_lines = [line for operator in (table.fold, *later_operators) for line in operator.lines()]
    rule_lines = [f"EXPECT {rule}" for rule in (*table.expectations, *table.watched_rules)]
    operator_lines = [*operator_lines, *rule_lines, *table.stream.lines()]
    return "\n".join([f"TABLE {table.name} (key {', '.join(table.key)})", *(f"  {line}" for line in operator_lines)])


def _stream_text(stream: Stream) -> str:
    return "\n".join(stream.lines())
