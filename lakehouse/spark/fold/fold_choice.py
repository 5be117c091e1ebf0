"""Chooses how a table's records are folded on Spark: by the operator that folds them, and by its aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from lakehouse.plan.aggregation import SQL_KINDS, can_subtract
from lakehouse.plan.operator import Aggregate, Fold, Latest, LatestBy, LatestSent, RowHistory
from lakehouse.plan.table import Table
from lakehouse.semantics.time.window import Hopping
from lakehouse.spark.fold.aggregate_history import AggregateHistoryFold, OrderedHistoryFold, depends_on_order
from lakehouse.spark.fold.forms.aggregates import Form
from lakehouse.spark.fold.latest import LatestFold, LatestSentFold
from lakehouse.spark.fold.latest_by_order import LatestByOrderFold
from lakehouse.spark.fold.latest_history import LatestByHistoryFold, LatestHistoryFold
from lakehouse.spark.fold.python_aggregates import PythonFold
from lakehouse.spark.fold.sql_aggregates import SqlFold
from lakehouse.spark.fold.table_fold import TableFold
from lakehouse.spark.fold.tracked_history import TrackedHistoryFold


def choose_fold(table: Table, forms: Sequence[Form] = ()) -> TableFold:
    """Return a table's fold. forms: those of its aggregations; none where only keys and times of records count."""
    table_fold = fold_class(table.fold, table, forms)(table, forms)
    tracks = isinstance(table.fold, RowHistory) and table.fold.track is not None
    return TrackedHistoryFold(table_fold) if tracks else table_fold


@singledispatch
def fold_class(operator: Fold, table: Table, forms: Sequence[Form]) -> type[TableFold]:
    """Return the class that folds a table's records, by the table's operator. forms: see `choose_fold`."""
    raise NotImplementedError(type(operator))


@fold_class.register
def _latest_class(operator: Latest, table: Table, forms: Sequence[Form]) -> type[TableFold]:
    return LatestFold


@fold_class.register
def _latest_sent_class(operator: LatestSent, table: Table, forms: Sequence[Form]) -> type[TableFold]:
    return LatestSentFold


@fold_class.register
def _latest_by_class(operator: LatestBy, table: Table, forms: Sequence[Form]) -> type[TableFold]:
    return LatestByOrderFold


@fold_class.register
def _history_class(operator: RowHistory, table: Table, forms: Sequence[Form]) -> type[TableFold]:
    match operator.row_fold:
        case LatestBy():
            return LatestByHistoryFold
        case Latest():
            return LatestHistoryFold
    return OrderedHistoryFold if any(map(depends_on_order, forms)) else AggregateHistoryFold


@fold_class.register
def _aggregate_class(operator: Aggregate, table: Table, forms: Sequence[Form]) -> type[TableFold]:
    if table.stream.undoes:
        in_sql = all(can_subtract(item, table.stream.columns) for item in operator.aggregations)
    else:
        are_common = all(item.kind in SQL_KINDS for item in operator.aggregations)
        in_sql = are_common and isinstance(operator.window, Hopping | None)
    return SqlFold if in_sql else PythonFold
