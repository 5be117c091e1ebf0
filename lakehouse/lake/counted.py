"""What the newest commit of a table says of all its batches together, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakehouse.lake.commit_log import CommitLog, open_local_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.reader import open_table, table_names


def read_newest_counts(log: CommitLog, name: str) -> dict[str, Any]:
    """Return the metadata of the newest commit that counts records; {} without one. name: as its commits have it."""
    own_metadata = (commit.metadata for commit in log.walk_back() if commit.metadata.get("app") == f"lakehouse.{name}")
    return next((commit for commit in own_metadata if "records" in commit), {})


def walk_state_logs(layout: Layout) -> Iterator[tuple[str, CommitLog, str]]:
    """Yield the tables, each with the log of all that it keeps, and the name that this log's commits have."""
    with_state = set(table_names(layout, "state"))
    for table in table_names(layout, "silver"):
        layer, table_path = ("state", layout.state(table)) if table in with_state else ("silver", layout.silver(table))
        progress_name = f"state.{table}" if layer == "state" else table
        yield table, open_local_log(table_path, open_table(table_path, progress_name).version()), progress_name
