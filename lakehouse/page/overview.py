"""The overview of an application: its lineage, and the present content of its topics, streams and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from lakehouse.lake import function_failures, null_keys, reader
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.layout import Layout
from lakehouse.lake.read_bounds import bound_reads, current_read
from lakehouse.lake.record import late_records
from lakehouse.lake.record.behind import count_lacking
from lakehouse.lake.record.quarantine import count_open_by_stream, count_refused
from lakehouse.lake.store import is_table
from lakehouse.page.applications import Application, TableInfo
from lakehouse.page.limits import read_bounds
from lakehouse.semantics.failures import FunctionFailures

Facts = TypeVar("Facts")


def read_overview(app: Application) -> dict[str, Any]:
    """Return the lineage, and the facts of each node; None for a node that the lake does not have yet.

    Raises StorageError, ConfigError, TimedOut.
    """
    with bound_reads(read_bounds("`lakehouse status` has no such limit.")):
        return _collect_facts(app)


def _collect_facts(app: Application) -> dict[str, Any]:
    layout = app.layout
    coverage = reader.read_bronze_coverage(layout)
    quarantine_names = set(reader.table_names(layout, "quarantine"))
    judged_streams = [name for name in app.streams if name in quarantine_names]
    open_counts = count_open_by_stream(layout, judged_streams)
    refused_records = count_refused(layout, judged_streams)
    late_counts = late_records.count_late_records(layout, [table.name for table in app.tables])
    null_keys_by_table = null_keys.null_keys_by_table(layout)
    failures_by_table = function_failures.failures_by_table(layout)
    return {
        "name": app.name,
        "lake": layout.root,
        "tick": coverage.tick,
        "nodes": [{"id": node.id, "kind": node.kind, "name": node.name} for node in app.nodes],
        "edges": [list(edge) for edge in app.edges],
        "topics": {
            node.name: _read_in_time(_bronze_facts, layout, node.name) for node in app.nodes if node.kind == "topic"
        },
        "streams": {
            name: {
                "quarantined": open_counts.get(name, 0),
                "refused": [
                    {"expectation": refused.expectation, "records": refused.records, "open": refused.open}
                    for refused in refused_records
                    if refused.stream == name
                ],
            }
            for name in app.streams
        },
        "tables": {
            table.name: _read_in_time(
                table_facts,
                app,
                table,
                coverage,
                late_counts[table.name],
                null_keys_by_table.get(table.name, 0),
                failures_by_table.get(table.name, ()),
            )
            for table in app.tables
        },
    }


def _read_in_time(read_part: Callable[..., Facts], *arguments: Any) -> Facts:
    """Call a function that reads a part by delta-rs, if there is time left: nothing interrupts delta-rs."""
    bounded_read = current_read()
    assert bounded_read is not None
    bounded_read.check()
    return read_part(*arguments)


def table_facts(
    app: Application,
    table: TableInfo,
    coverage: TickCoverage,
    late_count: int,
    null_key_count: int,
    failures: Iterable[FunctionFailures],
) -> dict[str, Any] | None:
    """Return a table's present facts, and how far it is behind bronze: in ticks, and in records of its topics."""
    if not is_table(app.layout.silver(table.name)):
        return None
    silver_facts = reader.read_table_facts(app.layout, "silver", table.name)
    table_tick = silver_facts.tick or 0
    missing_records = count_lacking(app.layout, coverage, table.name, table.topics, table_tick)
    return {
        "rows": silver_facts.rows,
        "version": silver_facts.version,
        "tick": silver_facts.tick,
        "behind_ticks": coverage.tick - table_tick if missing_records else 0,
        "behind_records": missing_records,
        "last_commit_ms": silver_facts.last_commit_ms,
        "late": late_count,
        "null_keys": null_key_count,
        "unmet": [
            {"expectation": failure.expectation, "records": failure.records}
            for failure in failures
            if failure.expectation
        ],
        "key": list(silver_facts.key or table.key),
        "windowed": table.windowed,
    }


def _bronze_facts(layout: Layout, name: str) -> dict[str, Any] | None:
    if not is_table(reader.find_table_path(layout, "bronze", name)):
        return None
    bronze_facts = reader.read_table_facts(layout, "bronze", name)
    return {"rows": bronze_facts.rows, "last_commit_ms": bronze_facts.last_commit_ms}
