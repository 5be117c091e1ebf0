"""What the newest commit of a table says of all its batches together, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakehouse.lake.commit_log import CommitLog, local_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.reader import names, open_table


def newest_counts(log: CommitLog, name: str) -> dict[str, Any]:
    """Return the metadata of the newest commit that counts records; {} without one. name: as its commits have it."""
    ours = (said.metadata for said in log.back() if said.metadata.get("app") == f"lakehouse.{name}")
    return next((said for said in ours if "records" in said), {})


def kept_logs(layout: Layout) -> Iterator[tuple[str, CommitLog, str]]:
    """Yield the tables, each with the log of all that it keeps, and the name that this log's commits have."""
    with_state = set(names(layout, "state"))
    for table in names(layout, "silver"):
        layer, path = ("state", layout.state(table)) if table in with_state else ("silver", layout.silver(table))
        name = f"state.{table}" if layer == "state" else table
        yield table, local_log(path, open_table(path, name).version()), name
