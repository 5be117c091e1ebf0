"""The counts in a table's commits, and the sums of its rows, for a comparison with bronze."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import functions as F

from lakehouse.lake.commit_metadata import RecordCounts, TableCommit, app_id, sum_counts
from lakehouse.lake.place import TablePlace
from lakehouse.lake.properties import NEW_DECLARATION
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import commit_log_of


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """The sums of the counts in the commits up to a tick.

    whole: the log has all commits, or those since a swap. redeclared: a commit says that the declaration changed.
    """

    whole: bool
    redeclared: bool
    counts: RecordCounts


def count_by_commits(lake: OpenLake, table_place: TablePlace, tick: int) -> CommitCounts:
    """Add up the counts in a table's commits up to a tick."""
    commits = list(commit_log_of(lake.spark, table_place.path).walk_back())
    all_metadata = [commit.metadata for commit in reversed(commits) if commit.metadata is not None]
    batches = [
        metadata.content
        for metadata in all_metadata
        if isinstance(metadata.content, TableCommit)
        and metadata.app == app_id(table_place.name)
        and metadata.tick <= tick
    ]
    # A table that was swapped in did its own counting, from bronze's beginning.
    swap_indexes = [number for number, batch in enumerate(batches) if batch.swap_counts is not None]
    batches = batches[swap_indexes[-1] :] if swap_indexes else batches
    return CommitCounts(
        bool(swap_indexes) or commits[-1].version == 0,
        any(metadata.content.operation == NEW_DECLARATION for metadata in all_metadata),
        sum_counts(batch.swap_counts or batch.counts for batch in batches),
    )


def count_by_rows(
    lake: OpenLake, table_path: str, version: int, column_names: Iterable[str]
) -> tuple[int, dict[str, int]]:
    """Return the number of a table's rows at a version, and the sums of some of its columns."""
    summed_columns = list(column_names)
    sums = [F.coalesce(F.sum(F.col(f"`{name}`")), F.lit(0)) for name in summed_columns]
    totals = lake.read(table_path, version).agg(F.count(F.lit(1)), *sums).collect()[0]
    return int(totals[0]), {name: int(total) for name, total in zip(summed_columns, totals[1:], strict=True)}
