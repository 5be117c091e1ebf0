"""CONSTRAINT name EXPECT (condition) ON VIOLATION ...: what a topic's records, or a table's rows, must meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.catalog import BOUNDS, SqlRelation, is_windowed, window_bound
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import column_sql
from lakehouse.ksql.syntax.statement import Constraint, Constraints, TableConstraint
from lakehouse.plan.expectation import Otherwise
from lakehouse.plan.stream import Stream, with_judge
from lakehouse.plan.table import Table
from lakehouse.plan.watched_rule import FreshRule, UniqueRule, WatchedRule

VIOLATIONS: dict[str, Otherwise] = {"QUARANTINE": "quarantine", "WARN": "warn", "FAIL": "fail"}
OF_RECORDS, OF_ROWS = "QUARANTINE", "FAIL"  # without ON VIOLATION
JudgedNode = TypeVar("JudgedNode", Stream, Table)


class Expect(Protocol[JudgedNode]):
    """Adds an expectation to a stream or a table."""

    def __call__(self, node: JudgedNode, name: str, condition: str, /, *, otherwise: Otherwise) -> JudgedNode: ...


def with_constraints(
    node: JudgedNode,
    constraints: Iterable[Constraint],
    scope: ColumnScope,
    usual_violation: str,
    expect: Expect[JudgedNode],
) -> JudgedNode:
    """Return a stream or a table with what is expected of it. Raises SqlError for a constraint that can't be judged.

    scope: the columns that the conditions read. usual_violation: what a constraint without ON VIOLATION means.
    expect: called for each constraint with the node, the name and the condition; returns the node that has it.
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
            node = expect(node, constraint.name, condition, otherwise=otherwise)
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
    node = relational.node
    for constraint in constraints:
        violation = constraint.violation or (OF_ROWS if isinstance(node, Table) else OF_RECORDS)
        if violation == "QUARANTINE":
            reason = (
                "a row is made of many records, and has no quarantine"
                if isinstance(node, Table)
                else "the quarantine has the records of topics as they came, not those of a query"
            )
            raise SqlError(
                f"constraint {constraint.name}: {reason}",
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
    judged_node: Stream | Table = (
        with_constraints(node, constraints, scope, OF_ROWS, Table.expect)
        if isinstance(node, Table)
        else with_constraints(node, constraints, scope, OF_RECORDS, with_judge)
    )
    return replace(relational, node=judged_node)
