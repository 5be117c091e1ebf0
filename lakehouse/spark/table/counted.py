"""The counts in a table's commits, and the sums of its rows, for a comparison with bronze."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import functions as F

from lakehouse.lake.place import TablePlace
from lakehouse.lake.properties import NEW_DECLARATION
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import app_id, log_of

COUNTS = ("records", "bad", "null_keys", "late")
SEEN = "seen"  # in a swap's commit: the counts of the table that it brought


@dataclass(frozen=True, slots=True)
class Counted:
    """The sums of the counts in the commits up to a tick.

    whole: the log has all of them, or those since a swap. redeclared: one of them says that the declaration changed.
    """

    whole: bool
    redeclared: bool
    counts: dict[str, int]


def by_commits(lake: OpenLake, place: TablePlace, tick: int) -> Counted:
    """Add up the counts in a table's commits up to a tick."""
    log = list(log_of(lake.spark, place.path).back())
    said = [commit.metadata for commit in reversed(log)]
    ours = [commit for commit in said if commit.get("app") == app_id(place.name) and commit["tick"] <= tick]
    # A table that was swapped in did its own counting, from bronze's beginning.
    swaps = [number for number, commit in enumerate(ours) if SEEN in commit]
    begin = swaps[-1] if swaps else 0
    ours = [ours[begin].get(SEEN, ours[begin]), *ours[begin + 1 :]] if ours else []
    return Counted(
        bool(swaps) or log[-1].version == 0,
        any(commit.get("operation") == NEW_DECLARATION for commit in said),
        {name: sum(commit.get(name, 0) for commit in ours) for name in COUNTS},
    )


def by_rows(lake: OpenLake, path: str, version: int, names: Iterable[str]) -> tuple[int, dict[str, int]]:
    """Return the number of a table's rows at a version, and the sums of some of its columns."""
    columns = list(names)
    sums = [F.coalesce(F.sum(F.col(f"`{name}`")), F.lit(0)) for name in columns]
    found = lake.read(path, version).agg(F.count(F.lit(1)), *sums).collect()[0]
    return int(found[0]), {name: int(total) for name, total in zip(columns, found[1:], strict=True)}
