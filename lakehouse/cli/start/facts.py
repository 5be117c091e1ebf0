"""What the lake and Kafka hold now, as plain values: for `status`, `check` and the jobs' last event."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka.broker import find
from lakehouse.kafka.topics import Cluster, TopicFacts
from lakehouse.lake import ahead, failed, null_keys, reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.moment.subject import Reads, reads_of
from lakehouse.lake.record import late_records, quarantine
from lakehouse.settings.config import Settings

KAFKA_PATIENCE_SECONDS = 5.0

OFFSETS = """
    SELECT topic_id, "partition", count(*) AS records, count(DISTINCT "offset") AS offsets,
        min("offset") AS first, max("offset") AS last
    FROM bronze."{topic}" GROUP BY ALL ORDER BY ALL
"""


def broker(settings: Settings) -> dict[str, Any]:
    """Return which Kafka it is, and whether it runs; None where only asking it would tell."""
    if not settings.kafka.embedded:
        return {"embedded": False, "running": None, "bootstrap_servers": settings.kafka.bootstrap_servers}
    running = find(settings.kafka.folder)
    return {
        "embedded": True,
        "running": running is not None,
        "bootstrap_servers": running.bootstrap_servers if running else None,
        "pid": running.pid if running else None,
        "folder": str(settings.kafka.folder),
    }


def lake(settings: Settings) -> dict[str, Any]:
    """Return the broker, and the lake's topics, tables, quarantines and gaps. A lake that is not there is empty."""
    layout = Layout(settings.lake.path)
    kafka = broker(settings)
    covers = reader.bronze_covers(layout)
    streams = reader.names(layout, "quarantine")
    return {
        "lake": layout.root,
        "kafka": kafka,
        "tick": covers.get("tick", 0),
        "topics": _topics(settings, layout, covers.get("topics", {}), kafka),
        "tables": tables(layout, covers),
        "quarantined": reader.quarantined(layout, streams),
        "quarantined_open": quarantine.still_open(layout, streams),
        "gaps": len(gaps(layout)),
        "ahead": [asdict(table) for table in ahead.by_table(layout)],
    }


def tables(layout: Layout, covers: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the silver tables, each with the ticks that it is behind bronze, how many records came too late, how many
    had no key, and the functions that failed on some.
    """
    found = []
    names = reader.names(layout, "silver")
    too_late, functions, decided = late_records.counts(layout, names), failed.by_table(layout), interventions(layout)
    without_key = null_keys.by_table(layout)
    for name in names:
        facts = asdict(reader.facts(layout, "silver", name))
        reads = reads_of(reader.properties(layout, name)) or Reads(frozenset())
        lacks = max(last_of_topics(reads, covers), last_of(decided, name, reads)) > (facts["tick"] or 0)
        facts["behind"] = covers["tick"] - (facts["tick"] or 0) if lacks else 0
        facts["late"] = too_late[name]
        facts["null_keys"] = without_key[name]
        facts["failed"] = [function.plain() for function in functions[name]]
        found.append(facts)
    return found


def last_of_topics(reads: Reads, covers: dict[str, Any]) -> int:
    """Return the last tick with records of the topics that a table is made from; 0 if there are none."""
    lasts = [covers.get("topics", {}).get(topic, {}).get("last", {}) for topic in reads.topics]
    return max((tick for last in lasts for tick in last.values()), default=0)


def last_of(decided: dict[str, int], table: str, reads: Reads) -> int:
    """Return the tick of the last intervention in a table, or in one that it is made from; 0 if there is none.

    decided: see `interventions`.
    """
    return max(decided.get(name, 0) for name in (table, *reads.tables))


def interventions(layout: Layout) -> dict[str, int]:
    """Return the tick of the last intervention by table."""
    if not is_table(layout.interventions):
        return {}
    found = files.rows(layout.interventions, '"table", max("at") AS "at"', 'true GROUP BY "table"').to_pylist()
    return {row["table"]: row["at"] for row in found}


def gaps(layout: Layout, topic: str | None = None) -> list[dict[str, Any]]:
    """Return the gaps that bronze wrote down, of one topic or of all."""
    if not is_table(layout.gaps):
        return []
    rows: list[dict[str, Any]] = reader.open_table(layout.gaps, "bronze/gaps").to_pyarrow_table().to_pylist()
    return [row for row in rows if topic in (None, row["topic"])]


def offsets(layout: Layout, topic: str) -> list[dict[str, Any]]:
    """Return, by topic id and partition: records, distinct offsets, the first and the last offset that bronze has."""
    found = reader.query(layout, OFFSETS.format(topic=topic.replace('"', '""')))
    return list(found.to_arrow_table().to_pylist())


def _topics(settings: Settings, layout: Layout, known: dict[str, Any], kafka: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the topics of bronze, with how many records wait in Kafka: None where Kafka can't say."""
    names = reader.names(layout, "bronze")
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    here: dict[str, TopicFacts] = {}
    if kafka["bootstrap_servers"] is not None and names:
        try:
            cluster = Cluster(kafka["bootstrap_servers"], settings.kafka.options, KAFKA_PATIENCE_SECONDS)
            here = cluster.topics(sorted(set(names) & set(cluster.names())))
            ends = cluster.offsets((name, p) for name, fact in here.items() for p in range(fact.partitions))
            kafka["running"] = True
        except (KafkaUnavailable, NotFound) as error:
            kafka["running"], kafka["error"] = False, str(error)
    return [
        {
            "name": name,
            "rows": (facts := reader.facts(layout, "bronze", name)).rows,
            "next": known.get(name, {}).get("next", {}),  # by partition, the first offset that bronze does not have
            "partitions": here[name].partitions if name in here else len(known.get(name, {}).get("next", {})),
            "made_anew": name in here and name in known and here[name].id != known[name]["id"],
            "last_commit_ms": facts.last_commit_ms,
            "lag": _lag(name, known.get(name), here.get(name), ends),
        }
        for name in names
    ]


def _lag(
    name: str, said: dict[str, Any] | None, fact: TopicFacts | None, ends: dict[tuple[str, int], tuple[int, int]]
) -> int | None:
    if said is None or fact is None or fact.id != said["id"]:
        return None  # Kafka is not there, or its topic of this name is another one now
    parts = {partition: ends[name, partition] for partition in range(fact.partitions) if (name, partition) in ends}
    return sum(max(end - said["next"].get(str(p), first), 0) for p, (first, end) in parts.items()) if parts else None
