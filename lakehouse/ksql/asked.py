"""A SELECT that is asked, and not kept: it need not select its key, and may have LIMIT and a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import SqlRelation
from lakehouse.ksql.items import RESERVED, named_items
from lakehouse.ksql.join_parts import FromResult
from lakehouse.ksql.query import Find, QueryTarget, compile_from, compile_query
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import Item, Query


def compile_asked(query: Query, find: Find, name: str, limits: Mapping[str, int]) -> tuple[SqlRelation, frozenset[str]]:
    """Return the result of a SELECT, with its key, and the names of its columns that the query does not select.

    find: see `compile_query`. name: of the result. limits: see `QueryTarget`. Raises SqlError, PlanError.
    """
    from_clause = compile_from(query, find, name)
    hidden_items = _hidden_items(query, from_clause, name)
    result_kind = "TABLE" if query.group_by or from_clause.is_table else "STREAM"
    whole_query = replace(query, items=(*query.items, *hidden_items), limit=None, moment=None)
    query_result = compile_query(whole_query, find, QueryTarget(result_kind, name, query.position, limits))
    return query_result, frozenset(item.alias for item in hidden_items if item.alias)


def _hidden_items(query: Query, from_clause: FromResult, name: str) -> list[Item]:
    """Return the groups, or the key, that a kept query would have to select and this query does not."""
    if any(item.expression is None and item.source is None for item in query.items):
        return []
    items = named_items(query.items, from_clause.sides, from_clause.scope, rowkey=from_clause.rowkey)
    selected_texts = {_text_of(item.expression, from_clause) for item in items}
    if from_clause.keys and not (query.group_by or query.partition_by):
        is_selected = any(choice.item_text in selected_texts for choice in from_clause.keys)
        missing_nodes = [] if is_selected else [_join_key(from_clause)]
    else:
        own_key = tuple(t.Name(key_name, from_clause.sides[0].alias) for key_name in from_clause.key)
        key_nodes = query.group_by or query.partition_by or own_key
        missing_nodes = [node for node in key_nodes if _text_of(node, from_clause) not in selected_texts]
    taken_names = {*RESERVED, *(item.name for item in items)}
    hidden_items = []
    for number, node in enumerate(missing_nodes):
        own_name = node.name if isinstance(node, t.Name) else ""
        hidden_name = f"{name}_KEY_{number}" if own_name in ("", *taken_names) else own_name
        hidden_items.append(Item(node, hidden_name, position=node.position))
        taken_names.add(hidden_name)
    return hidden_items


def _text_of(node: t.Expr, from_clause: FromResult) -> str | None:
    """Return the Spark SQL of an item or a key; None for an item that is computed later, such as an aggregate."""
    try:
        return from_clause.scope.sql(node).text
    except SqlError:
        return None


def _join_key(from_clause: FromResult) -> t.Expr:
    """Return the column that selects the key of a join."""
    columns = [t.Name(column.name, side.alias) for side in from_clause.sides for column in side.columns]
    columns += [t.Name(from_clause.rowkey)] if from_clause.rowkey else []
    key_texts = [choice.item_text for choice in from_clause.keys]
    return next(column for column in columns if from_clause.scope.sql(column).text in key_texts)
