"""Push queries that compute: GROUP BY, windows, joins, PARTITION BY, and streams that join. No JVM.

The model runs the query over bronze again at each tick, and gives what the tick's records changed: so it holds the
records of the topics, and a question of too many is refused. Fixes and other interventions are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakehouse.formats.decode import decode
from lakehouse.ksql.facts import Answer, Deleted
from lakehouse.ksql.function.table import TABLE_FUNCTIONS
from lakehouse.ksql.properties import limits
from lakehouse.ksql.query import QueryTarget, beginning, compiled
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.statement import Item, Query
from lakehouse.ksql.syntax.tree import Call
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.plan.app import App, app
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.run.sql import records
from lakehouse.run.sql.records import Wait

NAME = "PUSHED"
KEY = f"{NAME}_KEY"


def is_computed(query: Query, node: Stream | Table) -> bool:
    """Say whether the rows of a query are more than those of its source, one by one."""
    clauses = (query.joins, query.group_by, query.partition_by, query.having, query.window)
    expressions = [item.expression for item in query.items if item.expression is not None]
    calls = [part.name for one in expressions for part in one.walk() if isinstance(part, Call)]
    is_alone = isinstance(node, Table) or records.is_alone(node)
    return any(clauses) or not is_alone or not TABLE_FUNCTIONS.keys().isdisjoint(calls)


def answer(query: Query, script: Script, layout: Layout, wait: Wait, *, earliest: bool) -> Answer:
    """Return the names and the rows, which come without end. Raises SqlError, NeedsSpark."""
    begin = beginning(query, script.find, NAME)
    kind = "TABLE" if query.group_by or begin.is_table else "STREAM"
    asked = QueryTarget(kind, NAME, query.at, limits(script.settings))
    made = compiled(replace(query, items=(*query.items, *_keys(query)), limit=None), script.find, asked)
    names = tuple(column.name for column in made.columns if not column.name.startswith(KEY))
    node = made.node
    whole = app(node if isinstance(node, Table) else node.to_topic(NAME))
    return Answer(names, _rows(whole, node, names, layout, wait, earliest=earliest), ends=False)


def _keys(query: Query) -> list[Item]:
    """What a query that is kept would have to select: the groups that this one does not show."""
    if any(item.expression is None for item in query.items):
        return []
    shown = {item.expression for item in query.items}
    missing = [one for one in query.group_by if one not in shown]
    return [Item(one, alias=f"{KEY}_{number}", at=one.at) for number, one in enumerate(missing)]


def _rows(
    whole: App,
    node: Stream | Table,
    names: tuple[str, ...],
    layout: Layout,
    wait: Wait,
    *,
    earliest: bool,
) -> Iterator[tuple[object, ...]]:
    for seen, newest in records.coming(layout, wait, earliest=earliest):
        result = model.run(whole, records.held(whole.sources, layout, newest), decode)
        changes = result.changelogs[node.name] if isinstance(node, Table) else result.topics[NAME]
        for change in changes:
            if change.position.tick > seen:
                key = dict(zip(node.key, change.key or (), strict=False))
                row = {name.lower(): value for name, value in {**(change.value or {}), **key}.items()}
                values = tuple(row.get(name.lower()) for name in names)
                yield Deleted(values) if isinstance(node, Table) and change.value is None else values
