"""Records that a table left out because their key is null, in all of its batches, from its newest commit.

An aggregate leaves out a record with a null in a column of its key, the columns by which it is grouped.
"""

from __future__ import annotations

from lakehouse.lake.batch_totals import read_newest_batch, walk_state_logs
from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.layout import Layout


def null_keys_in_log(log: CommitLog, name: str) -> int:
    """Return the number in all batches of a table, from its log; name: the table's, in its commits."""
    newest_batch = read_newest_batch(log, name)
    return 0 if newest_batch is None else newest_batch.null_keys_so_far


def null_keys_by_table(layout: Layout) -> dict[str, int]:
    """Return the number by table, without Spark."""
    return {table: null_keys_in_log(log, name) for table, log, name in walk_state_logs(layout)}


def null_keys_sentence(table: str, rows: int | None, records: int) -> str:
    """Return a summary's sentence about a table that left out records; empty if it left out none."""
    if not records:
        return ""
    without_key = f"{records:,} record{'' if records == 1 else 's'} without a key"
    if rows == 0:
        return f"{table}: 0 rows, {without_key}: a table needs one. `rekey` gives one, in SQL PARTITION BY."
    return f"{table}: {without_key}, left out."
