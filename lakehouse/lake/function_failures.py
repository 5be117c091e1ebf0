"""Users' functions that failed on records of a table, as its newest commit lists them."""

from __future__ import annotations

from lakehouse.lake.batch_totals import read_newest_batch, walk_state_logs
from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.layout import Layout
from lakehouse.semantics.failures import FunctionFailures


def failures_in_log(log: CommitLog, name: str) -> tuple[FunctionFailures, ...]:
    """Return how often functions failed in all batches of a table, from its log; name: the table's, in its commits."""
    newest_batch = read_newest_batch(log, name)
    return () if newest_batch is None else newest_batch.failures


def failures_by_table(layout: Layout) -> dict[str, tuple[FunctionFailures, ...]]:
    """Return the functions that failed on records, by table; () for a table without failures."""
    return {table: failures_in_log(log, name) for table, log, name in walk_state_logs(layout)}
