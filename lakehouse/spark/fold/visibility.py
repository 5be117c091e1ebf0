"""The conditions on a table's kept rows that are visible, or expire with time: from the table's operators."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.operator import Expire, Final, Having
from lakehouse.plan.table import Table
from lakehouse.semantics.time.window import Span
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.fold.table_fold import TableFold


def is_visible(table_fold: TableFold) -> Column:
    """Return the condition on rows of a state that are visible, as far as the row alone tells."""
    having = table_fold.table.find(Having)
    return table_fold.is_shown() if having is None else table_fold.is_shown() & is_qualifying(having)


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


def is_unneeded(table_fold: TableFold, watermark: int | None, emitted_watermark: int | None) -> Column | None:
    """Return the condition on kept rows that are no longer needed; None if all are needed.

    emitted_watermark: the watermark up to which final results are out.
    """
    table = table_fold.table
    if is_final(table):
        return None if emitted_watermark is None else has_ended(emitted_watermark - _needed_ms(table))
    is_old_marker = table_fold.is_unneeded(watermark)
    return is_expired(table, watermark) if is_old_marker is None else is_old_marker


def is_still_open(table: Table, watermark: int | None) -> Column:
    """Return the condition on rows that final results still need: open windows, and those that begin later ones."""
    return F.lit(True) if watermark is None else ~has_ended(watermark - _needed_ms(table))


def _needed_ms(table: Table) -> int:
    assert table.fold.window is not None
    return table.fold.window.needed_after_end


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
