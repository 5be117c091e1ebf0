"""A plan as text: what reads what, and what becomes of it."""

from __future__ import annotations

from lakehouse.plan.app import App
from lakehouse.plan.step import ChangesOf, Explode, Filter, Map, Merge, Rekey, Select, Source, TableJoin, function_text
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table


def describe(item: App | Table | Stream) -> str:
    """Return a declaration as indented text, one line a step; a table, or stream, with the tables that it reads."""
    if isinstance(item, App):
        return "\n".join([*map(_table, item.tables), *map(_sink, item.sinks)])
    own, stream = (_table(item), item.stream) if isinstance(item, Table) else (_stream(item), item)
    return "\n".join([own, *map(_table, reversed(stream.tables))])


def _sink(sink: Sink) -> str:
    of = f"table {sink.of.name}, {sink.mode} changelog" if isinstance(sink.of, Table) else _stream(sink.of)
    by = f" PARTITION BY {sink.partition_by}" if sink.partition_by else ""
    return f"TOPIC {sink.topic}{by} <- {of}"


def _table(table: Table) -> str:
    lines = [f"TABLE {table.name} (key {', '.join(table.key)})"]
    if table.is_latest:
        order = f" by {table.order_by}" if table.order_by else ""
        lines.append(f"  latest value per key{order}; a null value deletes")
    else:
        lines += [f"  {aggregation}" for aggregation in table.aggregations]
        lines.append(f"  GROUP BY {', '.join(map(str, table.group_by))}")
    lines += [f"  WINDOW {table.window}"] if table.window else []
    lines += [f"  HAVING {table.having}"] if table.having else []
    lines += ["  EMIT FINAL" + (f" (IDLE {table.idle} MS)" if table.idle else "")] if table.is_final else []
    lines += [f"  RETENTION {table.retention} MS"] if table.retention else []
    lines += ["  SUPPRESS unchanged"] if table.suppress else []
    return "\n".join([*lines, *(f"  {line}" for line in _stream(table.stream).splitlines())])


def _stream(stream: Stream) -> str:
    lines = []
    for step in reversed(stream.steps):
        match step:
            case Filter(predicate):
                lines.append(f"FILTER {predicate}")
            case Select(columns):
                lines.append(f"SELECT {', '.join(map(str, columns))}")
            case Rekey(columns):
                lines.append(f"REKEY {', '.join(map(str, columns))}")
            case Explode(column):
                lines.append(f"EXPLODE {column}")
            case Map():
                arguments = ", ".join(map(str, step.arguments))
                lines.append(f"MAP {step.name} {step.type} = {function_text(step.function)}({arguments})")
    match stream.source:
        case Merge(streams):
            lines.append("MERGE")
            lines += [f"  {line}" for part in streams for line in _stream(part).splitlines()]
        case ChangesOf(table):
            lines.append(f"CHANGES OF TABLE {table.name}")
        case TableJoin(joined, table, on, how):
            lines.append(f"{how.upper()} JOIN TABLE {table.name} ON {', '.join(map(str, on))}")
            lines += [f"  {line}" for line in _stream(joined).splitlines()]
        case Source():
            lines += _source(stream.source)
    return "\n".join(lines)


def _source(source: Source) -> list[str]:
    time = f", event time {source.event_time}" if source.event_time else ""
    return [
        f"FROM topic {source.topic} (stream {source.name}{time})",
        f"  key   {source.key_format}: {', '.join(map(str, source.key))}",
        f"  value {source.value_format}: {', '.join(map(str, source.value))}",
    ]
