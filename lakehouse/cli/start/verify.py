"""Is every table of an application where it should be, and is every offset accounted for? Read without Spark.

A table is current when no row of its topics has a tick after the table's own, nor an intervention in it or in a table
that it reads. An offset of a partition, from the first that bronze has to the next that it expects, is a row of bronze
exactly once; a hole is either written down in bronze/gaps (Kafka lost it before it was ingested) or Kafka's own: a
transaction's marker, an aborted or a compacted record.
Where the log of a table that reads only topics still has all its commits, the records that these say they saw must be
as many as its topics have.
"""

from __future__ import annotations

from typing import Any

from lakehouse.cli.start import facts
from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.subject import Reads
from lakehouse.lake.place import state_of
from lakehouse.plan.app import App
from lakehouse.plan.table import Table


def verify(layout: Layout, app: App) -> dict[str, Any]:
    """Return {"ok", "problems", "tick", "tables", "topics", "quarantined"}. Raises NotFound before the first tick."""
    covers = reader.bronze_covers(layout)
    if not covers:
        raise NotFound(f"lake {layout.root} holds no tick yet. Run the application first: lakehouse run.")
    topics = {name: _topic(layout, name, covers["topics"].get(name)) for name in app.topics}
    tables = {table.name: _table(layout, table, covers, topics) for table in app.tables}
    known = set(reader.names(layout, "quarantine"))
    quarantined = reader.quarantined(layout, [s.name for s in app.sources if s.name in known])
    problems = [f"topic {name}: {text}" for name, found in topics.items() for text in found.pop("problems")]
    problems += [f"table {name}: {text}" for name, found in tables.items() for text in found.pop("problems")]
    return {
        "ok": not problems,
        "problems": problems,
        "tick": covers["tick"],
        "tables": tables,
        "topics": topics,
        "quarantined": quarantined,
    }


def _table(layout: Layout, table: Table, covers: dict[str, Any], topics: dict[str, Any]) -> dict[str, Any]:
    if table.name not in reader.names(layout, "silver"):
        return {"rows": None, "version": None, "tick": None, "problems": ["does not exist; run its application"]}
    found, reads = reader.facts(layout, "silver", table.name), Reads.of(table.stream)
    wanted, tick = facts.last_of_topics(reads, covers), found.tick or 0
    decided = facts.last_of(facts.interventions(layout), table.name, reads)
    records = sum(topics[topic]["records"] for topic in reads.topics)
    log = reader.log(layout, state_of(layout, table).name)
    seen = sum(commit["records"] or 0 for commit in log)
    problems = []
    if tick < wanted:
        problems.append(f"is at tick {tick}, its topic has records up to tick {wanted}; run silver")
    elif tick < decided:
        above = ", ".join(sorted(reads.tables))
        where = f"it, or in one of the tables that it reads ({above})," if above else "it"
        problems.append(f"is at tick {tick}, somebody intervened in {where} at tick {decided}; run silver")
    # The changes of the tables that a table reads are among the records that it saw.
    elif not reads.tables and _begins_empty(log) and seen != records:
        problems.append(f"its commits say that they saw {seen} records, its topics have {records} in bronze")
    return {"rows": found.rows, "version": found.version, "tick": tick, "records": seen, "problems": problems}


def _begins_empty(log: list[dict[str, Any]]) -> bool:
    """Whether a log tells the whole life of a table; a restored one begins with what its changelog held."""
    return log[-1]["version"] == 0 and not any(commit["operation"].startswith("restore") for commit in log)


def _topic(layout: Layout, name: str, said: dict[str, Any] | None) -> dict[str, Any]:
    result: dict[str, Any] = {"records": 0, "offsets": {}, "holes": 0, "noted": 0, "problems": []}
    if said is None:
        return result
    for gap in facts.gaps(layout, name):
        result["noted"] += (gap["to_offset"] or gap["from_offset"]) - gap["from_offset"]
    for part in facts.offsets(layout, name):
        partition, here = part["partition"], part["topic_id"] == said["id"]
        where = f"partition {partition}" + ("" if here else f" of the earlier topic {part['topic_id']}")
        end = said["next"].get(str(partition), 0) if here else part["last"] + 1
        result["records"] += part["records"]
        result["holes"] += end - part["first"] - part["offsets"]
        if here:
            result["offsets"][str(partition)] = [part["first"], end]
        if part["records"] != part["offsets"]:
            result["problems"].append(f"{where}: {part['records'] - part['offsets']} records are in bronze twice")
        if part["last"] >= end:
            result["problems"].append(f"{where}: has offset {part['last']}, its last commit says {end} comes next")
    return result
