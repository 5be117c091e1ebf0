"""Queries that compute: GROUP BY, windows, joins, PARTITION BY, and streams that join; without a JVM.

The model runs the query over bronze again at each tick, and gives the changes by the tick's records. So it keeps the
records of the topics in memory, and refuses a query over too many. It knows no fixes or other interventions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse.ksql.asked import compile_asked
from lakehouse.ksql.catalog import BOUNDS, SqlColumn
from lakehouse.ksql.describe import Answer, DeletedRow
from lakehouse.ksql.function.table import TABLE_FUNCTIONS
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.statement import Query
from lakehouse.ksql.syntax.tree import Call, Name
from lakehouse.ksql.with_clause import read_aggregate_limits
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import record_decoder
from lakehouse.model import model
from lakehouse.model.event import from_hashable, to_epoch_ms
from lakehouse.plan.app import App, app
from lakehouse.plan.expression.field_names import name_fields
from lakehouse.plan.names.field import field_name
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.run.sql import records
from lakehouse.run.sql.records import Wait

NAME = "PUSHED"


def is_computed(query: Query, node: Stream | Table) -> bool:
    """Say whether a query computes more than each row of its source by itself."""
    clauses = (query.joins, query.group_by, query.partition_by, query.having, query.window)
    is_alone = isinstance(node, Table) or records.is_alone(node)
    return any(clauses) or not is_alone or gives_several_rows(query)


def gives_several_rows(query: Query) -> bool:
    """Say whether a query gives several rows for one row."""
    expressions = [item.expression for item in query.items if item.expression is not None]
    calls = {part.name for expression in expressions for part in expression.walk() if isinstance(part, Call)}
    return not TABLE_FUNCTIONS.keys().isdisjoint(calls)


@dataclass(frozen=True, slots=True)
class _ComputedQuery:
    """A query that the model runs: its node, the application of it alone, and the columns that it shows.

    bounds: the columns that are bounds of the key's window, which a deleted row has, too.
    """

    node: Stream | Table
    whole: App
    columns: tuple[SqlColumn, ...]
    bounds: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields from which the columns have theirs."""
        return tuple(field_name(column.name) for column in self.columns)

    def rows(self, layout: Layout, seen_tick: int, newest_tick: int) -> Iterator[tuple[object, ...]]:
        """Yield the rows that changed in the ticks (seen_tick, newest_tick]."""
        decode = record_decoder(layout)
        result = model.run(self.whole, records.read_all_records(self.whole.sources, layout, newest_tick), decode)
        is_table = isinstance(self.node, Table)
        for change in result.changelogs[self.node.name] if isinstance(self.node, Table) else result.topics[NAME]:
            # A stream's record without a value is no row.
            if change.position.tick > seen_tick and (is_table or change.value is not None):
                key = dict(zip(self.node.key, map(from_hashable, change.key or ()), strict=False))
                row = {name.lower(): value for name, value in {**(change.value or {}), **key}.items()}
                row |= {name.lower(): to_epoch_ms(key[bound]) for name, bound in self.bounds.items() if bound in key}
                values = tuple(name_fields(row.get(column.name.lower()), column.kind.spark) for column in self.columns)
                yield DeletedRow(values) if is_table and change.value is None else values


def _compile_query(query: Query, script: Script) -> _ComputedQuery:
    compiled_query, hidden_names = compile_asked(query, script.find, NAME, read_aggregate_limits(script.settings))
    shown_columns = tuple(column for column in compiled_query.columns if column.name not in hidden_names)
    node = compiled_query.node
    bounds = {
        item.alias or item.expression.name: BOUNDS[item.expression.name]
        for item in query.items
        if isinstance(item.expression, Name) and item.expression.name in BOUNDS
    }
    return _ComputedQuery(node, app(node if isinstance(node, Table) else node.to_topic(NAME)), shown_columns, bounds)


def answer_changes(query: Query, script: Script, layout: Layout, wait: Wait, *, earliest: bool) -> Answer:
    """Return the names and the rows, which come without end. Raises SqlError, NeedsSpark."""
    computed_query = _compile_query(query, script)
    ticks = records.new_ticks(layout, computed_query.whole.sources, wait, earliest=earliest)
    coming_rows = (
        row for seen_tick, newest_tick in ticks for row in computed_query.rows(layout, seen_tick, newest_tick)
    )
    return Answer(computed_query.names, coming_rows, ends=False)


def answer_so_far(query: Query, script: Script, layout: Layout) -> Answer:
    """Return the names, and the rows of all records so far. Raises SqlError, NeedsSpark."""
    computed_query = _compile_query(query, script)
    last_tick = records.last_tick(layout, computed_query.whole.sources)
    return Answer(computed_query.names, computed_query.rows(layout, 0, last_tick), is_long=True)
