"""Users' functions that failed on records of a table, as its newest commit lists them."""

from __future__ import annotations

from lakehouse.lake.commit_log import CommitLog, local_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.reader import names, open_table
from lakehouse.semantics.failures import Failed, failed_of

FAILED = "failed"


def by_log(log: CommitLog, name: str) -> tuple[Failed, ...]:
    """Return how often functions failed in all batches of a table, from its log; name: the name its commits have."""
    ours = (said.metadata for said in log.back() if said.metadata.get("app") == f"lakehouse.{name}")
    newest = next((said for said in ours if "records" in said), {})
    return failed_of(newest.get(FAILED, ()))


def by_table(layout: Layout) -> dict[str, tuple[Failed, ...]]:
    """Return by table the functions that failed on records, read without Spark; () for a table without failures."""
    with_state = set(names(layout, "state"))
    found = {}
    for table in names(layout, "silver"):
        layer, path = ("state", layout.state(table)) if table in with_state else ("silver", layout.silver(table))
        name = f"state.{table}" if layer == "state" else table
        found[table] = by_log(local_log(path, open_table(path, name).version()), name)
    return found
