"""The conditions on a table's kept rows that are visible, or expire with time: from the table's operators."""

from __future__ import annotations

from functools import reduce, singledispatch
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.operator import Expire, Final, Having, LatestBy, Operator
from lakehouse.plan.table import Table
from lakehouse.semantics.window import Span
from lakehouse.spark.expression.declared import column_of


def is_visible(table: Table) -> Column:
    """Return the condition on rows of a state that are visible, as far as the row alone tells."""
    return reduce(and_, map(_operator_shows, table.operators))


@singledispatch
def _operator_shows(operator: Operator) -> Column:
    return F.lit(True)


@_operator_shows.register
def _is_no_marker(operator: LatestBy) -> Column:
    return ~F.col("_deleted")


@_operator_shows.register
def _having_shows(operator: Having) -> Column:
    return is_qualifying(operator)


def is_qualifying(having: Having) -> Column:
    """Return the condition on rows that qualify; a row for which the predicate is null does not."""
    return F.coalesce(column_of(having.predicate), F.lit(False))


def is_final(table: Table) -> bool:
    """Say whether a table shows final results: rows of windows that have closed. They have a history of their own."""
    return table.find(Final) is not None


def has_expiry(table: Table) -> bool:
    """Say whether a table's visible rows expire with time."""
    return table.find(Expire) is not None


def is_expired(table: Table, watermark: int | None) -> Column | None:
    """Return the condition on visible rows that have expired by the watermark; None if none can have."""
    expire = table.find(Expire)
    return None if expire is None or watermark is None else has_ended(watermark - expire.after)


def is_unneeded(table: Table, watermark: int | None, emitted_watermark: int | None) -> Column | None:
    """Return the condition on kept rows that are no longer needed; None if all are needed.

    emitted_watermark: the watermark up to which final results are out.
    """
    if is_final(table):
        return None if emitted_watermark is None else has_ended(emitted_watermark - _needed_ms(table))
    fold = table.fold
    if isinstance(fold, LatestBy) and fold.remembers is not None and watermark is not None:
        # In milliseconds, as for late records: microseconds are cut off.
        return F.col("_deleted") & (F.col("_order") < (watermark - fold.remembers + 1) * 1000)
    return is_expired(table, watermark)


def is_still_open(table: Table, watermark: int | None) -> Column:
    """Return the condition on rows that final results still need: open windows, and those that begin later ones."""
    return F.lit(True) if watermark is None else ~has_ended(watermark - _needed_ms(table))


def _needed_ms(table: Table) -> int:
    assert table.fold.window is not None
    return table.fold.window.needed


def is_closed(table: Table, watermark: int | None) -> Column:
    """Return the condition on windows that have closed by the watermark."""
    return F.lit(False) if watermark is None else F.unix_millis("window_end") + closes_after(table) <= watermark


def closes_after(table: Table) -> int:
    """Return how long after its end a window closes, in milliseconds of stream time."""
    assert table.fold.window is not None
    return table.fold.window.closing_time(Span(0, 0))


def has_ended(bound_ms: int) -> Column:
    """Return the condition on windows that ended before `bound_ms`; the literal lets Delta skip files."""
    return F.col("window_end") < F.timestamp_millis(F.lit(bound_ms))
