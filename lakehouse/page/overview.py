"""An application at a glance: its lineage, and the present content of its topics, streams and tables."""

from __future__ import annotations

from typing import Any

from lakehouse.lake import null_keys, reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.record import late_records
from lakehouse.lake.record.quarantine import still_open
from lakehouse.lake.sql import literal
from lakehouse.page.applications import Application, TableOf


def overview(app: Application) -> dict[str, Any]:
    """Return the lineage, and facts of everything in it; None for what the lake does not have yet."""
    layout = app.layout
    reader.local_root(layout)
    covers = reader.bronze_covers(layout)
    known = set(reader.names(layout, "quarantine"))
    bad = still_open(layout, [name for name in app.streams if name in known])
    late = late_records.counts(layout, [table.name for table in app.tables])
    without_key = null_keys.by_table(layout)
    return {
        "name": app.name,
        "lake": layout.root,
        "tick": covers.get("tick", 0),
        "nodes": [{"id": node.id, "kind": node.kind, "name": node.name} for node in app.nodes],
        "edges": [list(edge) for edge in app.edges],
        "topics": {node.name: _topic(layout, node.name) for node in app.nodes if node.kind == "topic"},
        "streams": {name: {"quarantined": bad.get(name, 0)} for name in app.streams},
        "tables": {
            table.name: facts(app, table, covers, late[table.name], without_key.get(table.name, 0))
            for table in app.tables
        },
    }


def facts(
    app: Application, table: TableOf, covers: dict[str, Any], late: int, without_key: int
) -> dict[str, Any] | None:
    """Return a table's present facts, and how far it is behind bronze: in ticks, and in records of its topics."""
    if not is_table(app.layout.silver(table.name)):
        return None
    found = reader.facts(app.layout, "silver", table.name)
    tick = found.tick or 0
    last = [covers.get("topics", {}).get(topic, {}).get("last", {}) for topic in table.topics]
    wanted = max((int(at) for of in last for at in of.values()), default=0)
    # A topic's state in the commits can tell that nothing is missing; otherwise its records are counted.
    missing = sum(_records_after(app.layout, topic, tick) for topic in table.topics) if wanted > tick else 0
    return {
        "rows": found.rows,
        "version": found.version,
        "tick": found.tick,
        "behind_ticks": covers["tick"] - tick if missing else 0,
        "behind_records": missing,
        "last_commit_ms": found.last_commit_ms,
        "late": late,
        "null_keys": without_key,
        "key": list(found.key or table.key),
        "windowed": table.windowed,
    }


def _topic(layout: Layout, name: str) -> dict[str, Any] | None:
    if not is_table(reader.path_of(layout, "bronze", name)):
        return None
    found = reader.facts(layout, "bronze", name)
    return {"rows": found.rows, "last_commit_ms": found.last_commit_ms}


def _records_after(layout: Layout, topic: str, tick: int) -> int:
    path = reader.path_of(layout, "bronze", topic)
    if not is_table(path):
        return 0
    where = f"topic = {literal(topic)} AND tick > {tick}"
    return int(files.rows(path, "count(*) AS records", where).to_pylist()[0]["records"])
