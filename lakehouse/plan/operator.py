"""A table's operator: the rule of `lakehouse.semantics` that its window asks for."""

from __future__ import annotations

from lakehouse.plan.table import Table
from lakehouse.semantics.operators.cell import Operator, Plain, Rules, TimeWindows
from lakehouse.semantics.operators.session import Sessions
from lakehouse.semantics.operators.sliding import SlidingWindows
from lakehouse.semantics.window import Hopping, Session


def operator(table: Table, rules: Rules) -> Operator:
    """Return what applies a record to the rows of one key of this table."""
    match table.window:
        case None:
            return Plain(rules)
        case Hopping():
            return TimeWindows(rules, table.window)
        case Session():
            return Sessions(rules, table.window, table.is_final)
    return SlidingWindows(rules, table.window)
