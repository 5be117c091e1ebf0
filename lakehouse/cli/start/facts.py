"""The present content of the lake and Kafka, as plain values: for `status`, `check` and the jobs' last event."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka.embedded.broker import find_broker
from lakehouse.kafka.topics import Cluster, TopicFacts
from lakehouse.lake import clocks_ahead, function_failures, null_keys, reader
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.control.writer_leases import kept_by_holder
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.moment.past_subject import TableInputs, reads_from_properties
from lakehouse.lake.record import late_records, quarantine
from lakehouse.lake.record.behind import measure_behind
from lakehouse.lake.record.lost_records import read_gaps
from lakehouse.lake.record.undeclared_fields import find_undeclared_fields
from lakehouse.lake.store import is_table
from lakehouse.run.watch.lag import count_missing
from lakehouse.settings.config import Settings

KAFKA_PATIENCE_SECONDS = 5.0

OFFSETS = """
    SELECT topic_id, "partition", count(*) AS records, count(DISTINCT "offset") AS offsets,
        min("offset") AS first, max("offset") AS last
    FROM bronze."{topic}" GROUP BY ALL ORDER BY ALL
"""


def broker_facts(settings: Settings) -> dict[str, Any]:
    """Return which Kafka it is, and whether it runs; None where only a request could tell."""
    if not settings.kafka.embedded:
        return {"embedded": False, "running": None, "bootstrap_servers": settings.kafka.bootstrap_servers}
    running_broker = find_broker(settings.kafka.folder)
    return {
        "embedded": True,
        "running": running_broker is not None,
        "bootstrap_servers": running_broker.bootstrap_servers if running_broker else None,
        "pid": running_broker.pid if running_broker else None,
        "folder": str(settings.kafka.folder),
    }


def lake_facts(settings: Settings) -> dict[str, Any]:
    """Return the broker, and the lake's topics, tables, quarantines and gaps. A missing lake is empty."""
    layout = Layout(settings.lake.path)
    kafka_facts = broker_facts(settings)
    coverage = reader.read_bronze_coverage(layout)
    stream_names = reader.table_names(layout, "quarantine")
    return {
        "lake": layout.root,
        "kafka": kafka_facts,
        "tick": coverage.tick,
        "processes": [{"process": holder, "keeps": subjects} for holder, subjects in kept_by_holder(layout).items()],
        "topics": _waiting_by_topic(settings, layout, coverage, kafka_facts),
        "tables": table_facts(layout, coverage),
        "quarantined": reader.count_quarantined(layout, stream_names),
        "quarantined_open": quarantine.count_open_by_stream(layout, stream_names),
        "refused": [asdict(refused) for refused in quarantine.count_refused(layout, stream_names)],
        "gaps": len(read_gaps(layout)),
        "undeclared": [
            asdict(field) for stream in stream_names for field in find_undeclared_fields(layout, coverage, stream)
        ],
        "ahead": [asdict(table) for table in clocks_ahead.tables_ahead(layout)],
    }


def table_facts(layout: Layout, coverage: TickCoverage) -> list[dict[str, Any]]:
    """Return the silver tables, each with how far it is behind bronze, how many records came too late, how many
    had no key, the functions that failed on some, and the expectations that some did not meet but that only warn.
    """
    facts_by_table = []
    table_names = reader.table_names(layout, "silver")
    late_counts = late_records.count_late_records(layout, table_names)
    failed_functions = function_failures.failures_by_table(layout)
    ticks_by_table = intervention_ticks(layout)
    null_keys_by_table = null_keys.null_keys_by_table(layout)
    for name in table_names:
        facts_of_table = asdict(reader.read_table_facts(layout, "silver", name))
        reads = reads_from_properties(reader.read_table_properties(layout, name)) or TableInputs(frozenset())
        lacks_ticks = max(coverage.last_tick(reads.topics), newest_repair_tick(ticks_by_table, name, reads)) > (
            facts_of_table["tick"] or 0
        )
        facts_of_table["behind"] = coverage.tick - (facts_of_table["tick"] or 0) if lacks_ticks else 0
        behind = measure_behind(layout, coverage, name, reads.topics, facts_of_table["tick"] or 0)
        facts_of_table["behind_records"] = behind.records
        facts_of_table["behind_seconds"] = round(behind.seconds(time.time() * 1000), 1)
        facts_of_table["late"] = late_counts[name]
        facts_of_table["null_keys"] = null_keys_by_table[name]
        failures = failed_functions[name]
        facts_of_table["failed"] = [asdict(failure) for failure in failures if not failure.expectation]
        facts_of_table["unmet"] = [
            {
                "expectation": failure.expectation,
                "records": failure.records,
                "first": failure.first,
                "reason": failure.error,
            }
            for failure in failures
            if failure.expectation
        ]
        facts_by_table.append(facts_of_table)
    return facts_by_table


def newest_repair_tick(ticks_by_table: dict[str, int], table: str, reads: TableInputs) -> int:
    """Return the tick of the last intervention in a table, or in one that it is made from; 0 if there is none.

    ticks_by_table: see `intervention_ticks`.
    """
    return max(ticks_by_table.get(name, 0) for name in (table, *reads.tables))


def intervention_ticks(layout: Layout) -> dict[str, int]:
    """Return the tick of the last intervention by table."""
    if not is_table(layout.interventions):
        return {}
    tick_rows = files.read_rows_where(
        layout.interventions, '"table", max("at") AS "at"', 'true GROUP BY "table"'
    ).to_pylist()
    return {row["table"]: row["at"] for row in tick_rows}


def offset_counts(layout: Layout, topic: str) -> list[dict[str, Any]]:
    """Return by topic id and partition bronze's records, distinct offsets, and its first and last offset."""
    offset_rows = reader.query_lake(layout, OFFSETS.format(topic=topic.replace('"', '""')))
    return list(offset_rows.to_arrow_table().to_pylist())


def _waiting_by_topic(
    settings: Settings, layout: Layout, coverage: TickCoverage, kafka_facts: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the topics of bronze, and those of [kafka] topics that it does not have yet.

    Each comes with how many records wait in Kafka: None where Kafka can't say, or has another topic of this name.
    """
    bronze_names = reader.table_names(layout, "bronze")
    topic_names = sorted({*bronze_names, *settings.kafka.topics})
    end_offsets: dict[tuple[str, int], tuple[int, int]] = {}
    kafka_topics: dict[str, TopicFacts] = {}
    # People look at the status first: a configured Kafka is asked even before the lake has a topic.
    if kafka_facts["bootstrap_servers"] is not None and (topic_names or not kafka_facts["embedded"]):
        try:
            cluster = Cluster(kafka_facts["bootstrap_servers"], settings.kafka.options, KAFKA_PATIENCE_SECONDS)
            kafka_topics = cluster.topics(sorted(set(topic_names) & set(cluster.names())))
            end_offsets = cluster.offsets(
                (name, p) for name, topic_facts in kafka_topics.items() for p in range(topic_facts.partitions)
            )
            kafka_facts["running"] = True
        except (KafkaUnavailable, NotFound) as error:
            kafka_facts["running"], kafka_facts["error"] = False, str(error)
    rows_by_topic = {name: reader.read_table_facts(layout, "bronze", name) for name in bronze_names}
    return [
        {
            "name": name,
            "rows": rows_by_topic[name].rows if name in rows_by_topic else 0,
            "next": {
                str(p): offset for p, offset in coverage.next_offsets(name).items()
            },  # the first that bronze lacks
            "partitions": kafka_topics[name].partitions if name in kafka_topics else len(coverage.next_offsets(name)),
            "made_anew": name in kafka_topics
            and name in coverage.topics
            and kafka_topics[name].id != coverage.topics[name].id,
            "last_commit_ms": rows_by_topic[name].last_commit_ms if name in rows_by_topic else None,
            "lag": _topic_lag(name, coverage.topics.get(name), kafka_topics.get(name), end_offsets),
        }
        for name in topic_names
    ]


def _topic_lag(
    name: str,
    topic_state: TopicState | None,
    topic_facts: TopicFacts | None,
    end_offsets: dict[tuple[str, int], tuple[int, int]],
) -> int | None:
    if topic_facts is None or (topic_state is not None and topic_facts.id != topic_state.id):
        return None  # Kafka does not answer, or has another topic of this name now
    next_offsets = {} if topic_state is None else topic_state.next  # bronze has nothing of it yet
    offsets_by_partition = {
        partition: end_offsets[name, partition]
        for partition in range(topic_facts.partitions)
        if (name, partition) in end_offsets
    }
    return (
        sum(count_missing(next_offsets.get(p), *kafka_offsets) for p, kafka_offsets in offsets_by_partition.items())
        if offsets_by_partition
        else None
    )
