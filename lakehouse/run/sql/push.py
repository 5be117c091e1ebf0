"""Push queries: rows as they come, of a table that the lake keeps, or of a stream of its topics; without a JVM.

A table gives each change of a commit once (the net changelog), a deleted row as its key with nulls, marked as
`Deleted`; WHERE sees the values that it had. A row that an update takes out of WHERE is deleted, too. After SET
'auto.offset.reset' = 'earliest' the rows that are there come first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Entry
from lakehouse.ksql.describe import Answer, DeletedRow
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.statement import Query
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.row import net_changes
from lakehouse.model.event import to_hashable
from lakehouse.run.sql import computed, records
from lakehouse.run.sql.pull import Reading, Row, compile_reading, value_of
from lakehouse.run.sql.records import Wait

PAUSE_SECONDS = 1.0


def pause_between_looks() -> None:
    """Wait until the next look."""
    time.sleep(PAUSE_SECONDS)


def push(query: Query, script: Script, layout: Layout, wait: Wait = pause_between_looks) -> Answer:
    """Return the answer to a SELECT with EMIT CHANGES; only its LIMIT ends it. Raises SqlError, NeedsSpark."""
    entry = script.find(query.relation.name, query.relation.position)
    if query.moment is not None:
        raise SqlError("AT names one moment, and EMIT CHANGES goes on; expected one of them", query.moment.position)
    earliest = script.settings.get("auto.offset.reset", "latest").lower() == "earliest"
    if computed.is_computed(query, entry.relation.node):
        answer = computed.answer_changes(query, script, layout, wait, earliest=earliest)
        return replace(answer, rows=islice(answer.rows, query.limit))
    row_reading = compile_reading(query, entry)
    if entry.kind == "STREAM":
        ticks = records.new_ticks(layout, records.topic_sources_of(entry), wait, earliest=earliest)
        stream_rows: Iterator[Row] = (
            row for after, last in ticks for row in records.stream_rows(entry, layout, after, last)
        )
        rows: Iterator[tuple[object, ...]] = (row_reading.row(row) for row in stream_rows if row_reading.keep(row))
    else:
        rows = _changed_rows(entry, row_reading, layout, wait, earliest, has_where=query.where is not None)
    return Answer(row_reading.names, islice(rows, query.limit), ends=False)


def _changed_rows(
    entry: Entry, row_reading: Reading, layout: Layout, wait: Wait, earliest: bool, *, has_where: bool
) -> Iterator[tuple[object, ...]]:
    """Yield the query's results for a table's changed rows, version by version."""
    table_facts = reader.read_table_facts(layout, "silver", entry.name)
    key_names, kinds_by_column = table_facts.key, {c.name: c.kind for c in entry.columns}
    # The keys of the rows that satisfied WHERE before the updates of a version, which come before these.
    kept_keys: set[object] = set()
    version = -1
    for change in net_changes.follow_net_changes(
        layout, entry.name, key_names, -1 if earliest else table_facts.version, wait, with_preimages=has_where
    ):
        if change["_commit_version"] != version:
            version = change["_commit_version"]
            kept_keys.clear()
        visible = {n: value_of(v, kinds_by_column.get(n)) for n, v in change.items() if not n.startswith("_")}
        key = tuple(to_hashable(change[name]) for name in key_names)
        is_kept = row_reading.keep({n.lower(): v for n, v in visible.items()})
        if change["_change_type"] == net_changes.PREIMAGE:
            if is_kept:
                kept_keys.add(key)
            continue
        if not is_kept and key not in kept_keys:
            continue
        is_deleted = change["_change_type"] == "delete" or not is_kept
        row = row_reading.row({n.lower(): None if is_deleted and n not in key_names else v for n, v in visible.items()})
        yield DeletedRow(row) if is_deleted else row
