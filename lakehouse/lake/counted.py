"""The totals over all batches of a table, from its newest commit, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakehouse.lake.commit_log import CommitLog, open_local_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.reader import open_table, table_names


def read_newest_counts(log: CommitLog, name: str) -> dict[str, Any]:
    """Return the metadata of the newest commit that counts records; {} without one. name: the table's in its log."""
    own_metadata = (commit.metadata for commit in log.walk_back() if commit.metadata.get("app") == f"lakehouse.{name}")
    return next((commit for commit in own_metadata if "records" in commit), {})


def walk_state_logs(layout: Layout) -> Iterator[tuple[str, CommitLog, str]]:
    """Yield each table with the log of its state, and the name that it has in that log's commits."""
    with_state = set(table_names(layout, "state"))
    for table in table_names(layout, "silver"):
        layer, table_path = ("state", layout.state(table)) if table in with_state else ("silver", layout.silver(table))
        progress_name = f"state.{table}" if layer == "state" else table
        yield table, open_local_log(table_path, open_table(table_path, progress_name).version()), progress_name
