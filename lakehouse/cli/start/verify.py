"""Verifies that an application's tables are current and that every offset is accounted for, without Spark.

A table is current when no row of its topics has a tick after the table's own, nor an intervention in it or in a table
that it reads. An offset of a partition, from the first that bronze has to the next that it expects, is a row of bronze
exactly once; a hole is either written down in bronze/gaps (Kafka lost it before it was ingested) or Kafka's own: a
transaction's marker, an aborted or a compacted record.
If the log of a table that reads only topics still has all its commits, the commits must have seen as many records as
its topics have, without those that a restored table holds by its changelog.
"""

from __future__ import annotations

import time
from typing import Any

from lakehouse.cli.start import facts
from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.past_subject import TableInputs
from lakehouse.lake.place import state_place
from lakehouse.lake.record.behind import count_lacking
from lakehouse.lake.record.covered import condition_of_own_records, count_records
from lakehouse.lake.record.lost_records import read_gaps
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.watch.table_rules import find_unmet_rules
from lakehouse.semantics.commit_number import NO_TICK


def verify_tables(layout: Layout, app: App) -> dict[str, Any]:
    """Return {"ok", "problems", "tick", "tables", "topics", "quarantined"}. Raises NotFound before the first tick."""
    coverage = reader.read_bronze_coverage(layout)
    if coverage.tick == NO_TICK:
        raise NotFound(f"lake {layout.root} holds no tick yet. Run the application first: lakehouse run.")
    topic_reports = {name: _verify_topic(layout, name, coverage.topics.get(name)) for name in app.topics}
    table_reports = {table.name: _verify_table(layout, table, coverage, topic_reports) for table in app.tables}
    now_ms = time.time_ns() // 1_000_000
    unmet_rules = [
        rule for table in app.tables for rule in find_unmet_rules(layout, table, table.watched_rules, now_ms)
    ]
    quarantine_names = set(reader.table_names(layout, "quarantine"))
    quarantined = reader.count_quarantined(
        layout, [source.name for source in app.sources if source.name in quarantine_names]
    )
    problems = [f"topic {name}: {text}" for name, report in topic_reports.items() for text in report.pop("problems")]
    problems += [f"table {name}: {text}" for name, report in table_reports.items() for text in report.pop("problems")]
    problems += [f"table {unmet.table}: {unmet.rule}: {unmet.reason}" for unmet in unmet_rules]
    return {
        "ok": not problems,
        "problems": problems,
        "tick": coverage.tick,
        "tables": table_reports,
        "topics": topic_reports,
        "quarantined": quarantined,
    }


def _verify_table(
    layout: Layout, table: Table, coverage: TickCoverage, topic_reports: dict[str, Any]
) -> dict[str, Any]:
    if table.name not in reader.table_names(layout, "silver"):
        return {"rows": None, "version": None, "tick": None, "problems": ["does not exist; run its application"]}
    table_facts, reads = reader.read_table_facts(layout, "silver", table.name), TableInputs.of_stream(table.stream)
    topic_tick, tick = coverage.last_tick(reads.topics), table_facts.tick or 0
    intervention_tick = facts.newest_repair_tick(facts.intervention_ticks(layout), table.name, reads)
    own_condition = condition_of_own_records(layout, table.name)
    record_count = (
        sum(topic_reports[topic]["records"] for topic in reads.topics)
        if own_condition is None
        else count_records(layout, reads.topics, own_condition)
    )
    commit_log = reader.read_log_rows(layout, state_place(layout, table).name)
    seen_count = sum(commit["records"] or 0 for commit in commit_log)
    problems = []
    if tick < topic_tick and count_lacking(layout, coverage, table.name, reads.topics, tick):
        problems.append(f"is at tick {tick}, its topic has records up to tick {topic_tick}; run silver")
    elif tick < intervention_tick:
        tables_above = ", ".join(sorted(reads.tables))
        table_text = f"it, or in one of the tables that it reads ({tables_above})," if tables_above else "it"
        problems.append(
            f"is at tick {tick}, somebody intervened in {table_text} at tick {intervention_tick}; run silver"
        )
    # The records that a table saw include the changes of the tables that it reads; and an old log lacks its beginning.
    elif not reads.tables and commit_log[-1]["version"] == 0 and seen_count != record_count:
        problems.append(f"its commits say that they saw {seen_count} records, its topics have {record_count} in bronze")
    return {
        "rows": table_facts.rows,
        "version": table_facts.version,
        "tick": tick,
        "records": seen_count,
        "problems": problems,
    }


def _verify_topic(layout: Layout, name: str, topic_state: TopicState | None) -> dict[str, Any]:
    topic_report: dict[str, Any] = {"records": 0, "offsets": {}, "holes": 0, "noted": 0, "problems": []}
    if topic_state is None:
        return topic_report
    for gap in read_gaps(layout, name):
        topic_report["noted"] += (gap["to_offset"] or gap["from_offset"]) - gap["from_offset"]
    for offset_counts in facts.offset_counts(layout, name):
        partition, is_present_topic = offset_counts["partition"], offset_counts["topic_id"] == topic_state.id
        partition_text = f"partition {partition}" + (
            "" if is_present_topic else f" of the earlier topic {offset_counts['topic_id']}"
        )
        end_offset = topic_state.next.get(partition, 0) if is_present_topic else offset_counts["last"] + 1
        topic_report["records"] += offset_counts["records"]
        topic_report["holes"] += end_offset - offset_counts["first"] - offset_counts["offsets"]
        if is_present_topic:
            topic_report["offsets"][str(partition)] = [offset_counts["first"], end_offset]
        if offset_counts["records"] != offset_counts["offsets"]:
            topic_report["problems"].append(
                f"{partition_text}: {offset_counts['records'] - offset_counts['offsets']} records are in bronze twice"
            )
        if offset_counts["last"] >= end_offset:
            topic_report["problems"].append(
                f"{partition_text}: has offset {offset_counts['last']}, its last commit says {end_offset} comes next"
            )
    return topic_report
