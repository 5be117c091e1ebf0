"""The totals over all batches of a table, from its newest commit, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.lake.commit_log import CommitLog, open_log
from lakehouse.lake.commit_metadata import TableCommit, app_id
from lakehouse.lake.layout import Layout
from lakehouse.lake.reader import open_table, table_names


def read_newest_batch(log: CommitLog, name: str) -> TableCommit | None:
    """Return the newest commit that counts records; None without one. name: the table's in its log.

    None also if Delta has removed that commit from the log: the rows do not have its totals, which begin again at 0.
    """
    for commit in log.walk_back():
        metadata = commit.metadata
        if metadata and metadata.app == app_id(name) and isinstance(metadata.content, TableCommit):
            return metadata.content
    return None


def walk_state_logs(layout: Layout) -> Iterator[tuple[str, CommitLog, str]]:
    """Yield each table with the log of its state, and the name that it has in that log's commits."""
    with_state = set(table_names(layout, "state"))
    for table in table_names(layout, "silver"):
        layer, table_path = ("state", layout.state(table)) if table in with_state else ("silver", layout.silver(table))
        progress_name = f"state.{table}" if layer == "state" else table
        yield table, open_log(table_path, open_table(table_path, progress_name).version()), progress_name
