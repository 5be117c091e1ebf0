"""The way to fold a table's records on Spark, chosen by the operator that folds them and its aggregates."""

from __future__ import annotations

from enum import Enum, auto

from lakehouse.plan.aggregation import SQL_KINDS, can_subtract
from lakehouse.plan.operator import Latest, LatestBy
from lakehouse.plan.table import Table
from lakehouse.semantics.window import Hopping


class FoldWay(Enum):
    """LATEST: the last record of each key. LATEST_BY: by an order of their own. SQL: the common aggregates, without a
    window or in tumbling and hopping ones. PYTHON: all others, by the rules of `lakehouse.semantics`."""

    LATEST = auto()
    LATEST_BY = auto()
    SQL = auto()
    PYTHON = auto()


def fold_way_of(table: Table) -> FoldWay:
    """Return how a table's records are folded."""
    match table.fold:
        case LatestBy():
            return FoldWay.LATEST_BY
        case Latest():
            return FoldWay.LATEST
    if table.stream.undoes:
        columns = table.stream.columns
        return FoldWay.SQL if all(can_subtract(item, columns) for item in table.fold.aggregations) else FoldWay.PYTHON
    are_common = all(item.kind in SQL_KINDS for item in table.fold.aggregations)
    return FoldWay.SQL if are_common and isinstance(table.fold.window, Hopping | None) else FoldWay.PYTHON
