"""Is every table of an application where it must be, and is every offset accounted for? Read without Spark.

A table is current when no row of its topic has a tick after the table's own. An offset of a partition, from the first
that bronze has to the next that it expects, is a row of bronze exactly once; a hole is either written down in
bronze/gaps (Kafka lost it before it was ingested) or Kafka's own: a transaction's marker, an aborted or compacted record.
"""

from __future__ import annotations

from typing import Any

from lakehouse.delta import reader
from lakehouse.delta.layout import Layout
from lakehouse.errors import NotFound
from lakehouse.plan.declare import App, Table

OFFSETS = """
    SELECT topic_id, "partition", count(*) AS records, count(DISTINCT "offset") AS distinct_offsets,
        min("offset") AS first, max("offset") AS last
    FROM rows GROUP BY ALL
"""


def verify(layout: Layout, app: App) -> dict[str, Any]:
    """Return {"ok", "problems", "tick", "tables", "topics", "quarantined"}. Raises NotFound when nothing has run yet."""
    covers = reader.bronze_covers(layout)
    if not covers:
        raise NotFound(f"lake {layout.root} holds no tick yet. Run the application first: lakehouse run APP.")
    topics = {name: _topic(layout, name, covers["topics"].get(name)) for name in app.topics}
    tables = {table.name: _table(layout, table, covers["topics"].get(table.stream.source.topic)) for table in app.tables}
    known = set(reader.names(layout, "quarantine"))
    quarantined = reader.quarantined(layout, [s.name for s in app.sources if s.name in known])
    problems = [f"{name}: {text}" for name, found in {**topics, **tables}.items() for text in found.pop("problems")]
    return {
        "ok": not problems,
        "problems": problems,
        "tick": covers["tick"],
        "tables": tables,
        "topics": topics,
        "quarantined": quarantined,
    }


def _table(layout: Layout, table: Table, topic: dict[str, Any] | None) -> dict[str, Any]:
    wanted = max(topic["last"].values(), default=0) if topic else 0
    if table.name not in reader.names(layout, "silver"):
        return {"rows": None, "version": None, "tick": None, "problems": ["does not exist; run its application"]}
    facts = reader.facts(layout, "silver", table.name)
    problems = []
    if (facts.tick or 0) < wanted:
        problems.append(f"is at tick {facts.tick}, its topic has records up to tick {wanted}; run silver")
    return {"rows": facts.rows, "version": facts.version, "tick": facts.tick, "problems": problems}


def _topic(layout: Layout, name: str, said: dict[str, Any] | None) -> dict[str, Any]:
    result: dict[str, Any] = {"records": 0, "offsets": {}, "holes": 0, "problems": []}
    if said is None:
        return result
    noted = reader.gaps(layout, name)
    result["noted_gaps"] = len(noted)
    counted = {(p["topic_id"], p["partition"]): p for p in reader.offsets(layout, name)}
    result["records"] = sum(part["records"] for part in counted.values())
    for (topic_id, partition), part in sorted(counted.items()):
        where = f"partition {partition}" + ("" if topic_id == said["id"] else f" of the earlier topic {topic_id}")
        if part["records"] != part["distinct"]:
            result["problems"].append(f"{where}: {part['records'] - part['distinct']} records stand in bronze twice")
        end = said["next"].get(str(partition), 0) if topic_id == said["id"] else part["last"] + 1
        if part["last"] >= end:
            result["problems"].append(f"{where}: has offset {part['last']}, its last commit says {end} comes next")
        result["holes"] += end - part["first"] - part["distinct"]
        if topic_id == said["id"]:
            result["offsets"][str(partition)] = [part["first"], end]
    return result
