"""Push queries: rows as they come, of a table that the lake keeps, or of a stream whose topics it takes in. No JVM.

A table gives each change of a commit once (the net changelog), a deleted row as its key with nulls, marked as
`Deleted`; WHERE judges it by the values that it had. What is there already comes first after SET 'auto.offset.reset' =
'earliest'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Entry
from lakehouse.ksql.facts import Answer, Deleted
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.statement import Query
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.row import net_changes
from lakehouse.plan.names.field import field_name
from lakehouse.run.sql import computed, records
from lakehouse.run.sql.pull import Reading, Row, reading, value_of
from lakehouse.run.sql.records import Wait

PAUSE_SECONDS = 1.0


def pause() -> None:
    """Wait until the next look."""
    time.sleep(PAUSE_SECONDS)


def push(query: Query, script: Script, layout: Layout, wait: Wait = pause) -> Answer:
    """Return the answer to a SELECT with EMIT CHANGES; it ends with its LIMIT alone. Raises SqlError, NeedsSpark."""
    of = script.find(query.relation.name, query.relation.at)
    if query.moment is not None:
        raise SqlError("AT names one moment, and EMIT CHANGES goes on; expected one of them", query.moment.at)
    earliest = script.settings.get("auto.offset.reset", "latest").lower() == "earliest"
    if computed.is_computed(query, of.made.node):
        answer = computed.answer(query, script, layout, wait, earliest=earliest)
        return replace(answer, rows=islice(answer.rows, query.limit))
    asked = reading(query, of)
    if of.kind == "STREAM":
        ticks = records.coming(layout, wait, earliest=earliest)
        coming: Iterator[Row] = (row for after, last in ticks for row in records.rows(of, layout, after, last))
        rows: Iterator[tuple[object, ...]] = (asked.row(row) for row in coming if asked.keep(row))
    else:
        rows = _changes(of, asked, layout, wait, earliest)
    return Answer(tuple(map(field_name, asked.names)), islice(rows, query.limit), ends=False)


def _changes(of: Entry, asked: Reading, layout: Layout, wait: Wait, earliest: bool) -> Iterator[tuple[object, ...]]:
    """What is asked of a table's changed rows, version by version."""
    facts = reader.facts(layout, "silver", of.name)
    keys, kinds = facts.key, {c.name: c.kind for c in of.columns}
    for change in net_changes.coming(layout, of.name, keys, -1 if earliest else facts.version, wait):
        gone = change["_change_type"] == "delete"
        visible = {n: value_of(v, kinds.get(n)) for n, v in change.items() if not n.startswith("_")}
        if not asked.keep({n.lower(): v for n, v in visible.items()}):
            continue
        row = asked.row({n.lower(): None if gone and n not in keys else v for n, v in visible.items()})
        yield Deleted(row) if gone else row
