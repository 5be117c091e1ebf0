"""A plan as text: what reads what, and what becomes of it."""

from __future__ import annotations

from lakehouse.plan.declare import App, Filter, Rekey, Select, Stream, Table


def describe(item: App | Table | Stream) -> str:
    """Return a declaration as indented text, one line a step."""
    if isinstance(item, App):
        parts = [describe(table) for table in item.tables]
        for sink in item.sinks:
            of = f"table {sink.of.name}, {sink.mode} changelog" if isinstance(sink.of, Table) else describe(sink.of)
            parts.append(f"TOPIC {sink.topic} <- {of}")
        return "\n".join(parts)
    if isinstance(item, Table):
        lines = [f"TABLE {item.name} (key {', '.join(item.key)})"]
        if item.is_latest:
            lines.append("  latest value per key; a null value deletes")
        else:
            lines += [f"  {aggregation}" for aggregation in item.aggregations]
            lines.append(f"  GROUP BY {', '.join(map(str, item.group_by))}")
        return "\n".join([*lines, *(f"  {line}" for line in describe(item.stream).splitlines())])
    source = item.source
    lines = []
    for step in reversed(item.steps):
        match step:
            case Filter(predicate):
                lines.append(f"FILTER {predicate}")
            case Select(columns):
                lines.append(f"SELECT {', '.join(map(str, columns))}")
            case Rekey(columns):
                lines.append(f"REKEY {', '.join(map(str, columns))}")
    time = f", event time {source.event_time}" if source.event_time else ""
    lines.append(f"FROM topic {source.topic} (stream {source.name}{time})")
    lines.append(f"  key   {source.key_format}: {', '.join(map(str, source.key))}")
    lines.append(f"  value {source.value_format}: {', '.join(map(str, source.value))}")
    return "\n".join(lines)
