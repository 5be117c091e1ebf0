"""What a table's commits say that they saw, and what its rows add up to: to be compared with bronze."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import functions as F

from lakehouse.lake.place import Place
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import app_id, log_of

COUNTS = ("records", "bad", "null_keys", "late")
SEEN = "seen"  # what a swap's commit says of the table that it brought: its counts


@dataclass(frozen=True, slots=True)
class Counted:
    """The sums of what the commits up to a tick say.

    whole: the log has all of them, or those since a swap. redeclared: one of them says that the declaration changed.
    """

    whole: bool
    redeclared: bool
    counts: dict[str, int]


def by_commits(lake: OpenLake, place: Place, tick: int) -> Counted:
    """Add up what a table's commits up to a tick say that they saw."""
    log = list(log_of(lake.spark, place.path).back())
    said = [commit.metadata for commit in reversed(log)]
    ours = [commit for commit in said if commit.get("app") == app_id(place.name) and commit["tick"] <= tick]
    # A table that was swapped in counted for itself, from bronze's beginning.
    swaps = [number for number, commit in enumerate(ours) if SEEN in commit]
    begin = swaps[-1] if swaps else 0
    ours = [ours[begin].get(SEEN, ours[begin]), *ours[begin + 1 :]] if ours else []
    return Counted(
        bool(swaps) or log[-1].version == 0,
        any(commit.get("operation") == "new declaration" for commit in said),
        {name: sum(commit.get(name, 0) for commit in ours) for name in COUNTS},
    )


def by_rows(lake: OpenLake, path: str, version: int, names: Iterable[str]) -> tuple[int, dict[str, int]]:
    """Return the number of a table's rows at a version, and the sums of some of its columns."""
    columns = list(names)
    sums = [F.coalesce(F.sum(F.col(f"`{name}`")), F.lit(0)) for name in columns]
    found = lake.read(path, version).agg(F.count(F.lit(1)), *sums).collect()[0]
    return int(found[0]), {name: int(total) for name, total in zip(columns, found[1:], strict=True)}
