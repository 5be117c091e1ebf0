"""CONSTRAINT name EXPECT (condition) ON VIOLATION ...: what a topic's records, or a table's rows, must meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.catalog import BOUNDS, SqlRelation, is_windowed, window_bound
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import column_sql
from lakehouse.ksql.syntax.statement import Constraint, Constraints, TableConstraint
from lakehouse.plan.expectation import Otherwise
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.plan.watched_rule import FreshRule, UniqueRule, WatchedRule

VIOLATIONS: dict[str, Otherwise] = {"QUARANTINE": "quarantine", "WARN": "warn", "FAIL": "fail"}
OF_RECORDS, OF_ROWS = "QUARANTINE", "FAIL"  # without ON VIOLATION
JudgedNode = TypeVar("JudgedNode", Stream, Table)


def with_constraints(
    node: JudgedNode, constraints: Iterable[Constraint], scope: ColumnScope, usual_violation: str
) -> JudgedNode:
    """Return a stream or a table with what is expected of it. Raises SqlError for a constraint that can't be judged.

    scope: the columns that the conditions read. usual_violation: what a constraint without ON VIOLATION means.
    """
    for constraint in constraints:
        violation = constraint.violation or usual_violation
        if (otherwise := VIOLATIONS.get(violation)) is None:
            raise SqlError(
                f"constraint {constraint.name}: ON VIOLATION {violation}", constraint.position,
                expected=" or ".join(VIOLATIONS),
            )  # fmt: skip
        condition = scope.predicate(constraint.condition, f"constraint {constraint.name}")
        try:
            node = node.expect(constraint.name, condition, otherwise=otherwise)
        except PlanError as error:
            raise SqlError(str(error), constraint.position) from None
    return node


def of_records(constraints: Constraints) -> list[Constraint]:
    """Return the constraints that are conditions: over a record, or over a row."""
    return [constraint for constraint in constraints if isinstance(constraint, Constraint)]


def of_table(constraints: Constraints) -> list[TableConstraint]:
    """Return the constraints that are about a table as a whole."""
    return [constraint for constraint in constraints if isinstance(constraint, TableConstraint)]


def with_table_constraints(relational: SqlRelation, constraints: Constraints) -> SqlRelation:
    """Return a table with the rules about it as a whole. Raises SqlError, also for a stream with such a rule."""
    for constraint in of_table(constraints):
        node = relational.node
        if not isinstance(node, Table):
            raise SqlError(
                f"constraint {constraint.name}: UNIQUE and FRESH are about a table", constraint.position,
                expected="CREATE TABLE, or a condition: EXPECT (amount > 0)",
            )  # fmt: skip
        subject = f"table {node.name!r}"
        try:
            rule: WatchedRule = (
                UniqueRule.declare(constraint.columns, node.columns, node.key, subject)
                if constraint.columns
                else FreshRule.declare(constraint.max_age, subject)
            )
            relational = replace(relational, node=node.watched_by(replace(rule, label=constraint.name)))
        except PlanError as error:
            raise SqlError(str(error), constraint.position) from None
    return relational


def with_row_constraints(relational: SqlRelation, all_constraints: Constraints, name: str) -> SqlRelation:
    """Return a query's result with what is expected of its rows. name: of the table. Raises SqlError."""
    relational = with_table_constraints(relational, all_constraints)
    constraints = of_records(all_constraints)
    if not constraints:
        return relational
    if not isinstance(relational.node, Table):
        raise SqlError(
            "a constraint of a query is about the rows of a table. Put it among the columns of the topic's stream, or "
            "the condition into WHERE",
            constraints[0].position,
        )
    for constraint in constraints:
        if constraint.violation == "QUARANTINE":
            raise SqlError(
                f"constraint {constraint.name}: a row is made of many records, and has no quarantine",
                constraint.position,
                expected="ON VIOLATION FAIL or WARN, or the constraint among the columns of the topic's stream",
            )  # fmt: skip
    columns = tuple(
        ScopeColumn(column.name, name, column_sql(column.name, column.kind)) for column in relational.columns
    )
    own_names = {column.name for column in relational.columns}
    bounds = tuple(
        ScopeColumn(bound, name, window_bound(bound))
        for bound in BOUNDS
        if is_windowed(relational.node) and bound not in own_names
    )
    scope = ColumnScope(columns, bounds)
    return replace(relational, node=with_constraints(relational.node, constraints, scope, OF_ROWS))
