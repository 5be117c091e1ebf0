"""How a table's records are folded on Spark: decided once, from the operator that folds them and its aggregates."""

from __future__ import annotations

from enum import Enum, auto

from lakehouse.plan.aggregation import SQL_KINDS, subtracts
from lakehouse.plan.operator import Latest, LatestBy
from lakehouse.plan.table import Table
from lakehouse.semantics.window import Hopping


class Way(Enum):
    """LATEST: the last record of each key. LATEST_BY: by an order of their own. SQL: the common aggregates, without a
    window or in tumbling and hopping ones. PYTHON: all others, by the rules of `lakehouse.semantics`."""

    LATEST = auto()
    LATEST_BY = auto()
    SQL = auto()
    PYTHON = auto()


def way_of(table: Table) -> Way:
    """Return how a table's records are folded."""
    match table.fold:
        case LatestBy():
            return Way.LATEST_BY
        case Latest():
            return Way.LATEST
    if table.stream.undoes:
        columns = table.stream.columns
        return Way.SQL if all(subtracts(item, columns) for item in table.fold.aggregations) else Way.PYTHON
    common = all(item.kind in SQL_KINDS for item in table.fold.aggregations)
    return Way.SQL if common and isinstance(table.fold.window, Hopping | None) else Way.PYTHON
