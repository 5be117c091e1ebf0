"""Leftovers of crashes and of removed applications below control/: upkeep removes them when old and not in use.

requests/*.refused   requests that a job could not read, from clients that ended before they got the answer
**/*.new             files that a killed process had not moved into place yet; an object store has none
restoring/*          rows of a restore that was killed; the next restore removes them too
checkpoints/silver-* checkpoints of an application's tables and sinks: a changed set has one of another name
"""

from __future__ import annotations

import fnmatch
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lakehouse.errors import LeaseHeld
from lakehouse.lake import store
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.spark.silver.upkeep import UpkeepPolicy, UpkeepResult
from lakehouse.spark.table.files import DAY_MS


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file, or a folder with its files, that a process left behind.

    lease: the name of the lease that its owner holds; empty for what nobody owns. files: their paths. newest_time: when
    the last of them was written, in seconds since 1970.
    """

    path: str
    lease: str
    files: tuple[str, ...]
    bytes: int
    newest_time: float


def upkeep_control(layout: Layout, policy: UpkeepPolicy, now: datetime) -> list[UpkeepResult]:
    """Remove leftovers older than the retention of versions; the result counts files, not tables.

    On stores other than S3 nothing is removed: only a JVM writes there.
    """
    with ExitStack() as held_leases:
        old_leftovers = _find_old_leftovers(layout, policy, now, held_leases)
        planned_results = _plan_removal(old_leftovers, policy)
        for leftover in old_leftovers:
            _remove_leftover(leftover)
    return [replace(result, files_after=0, bytes_after=0) for result in planned_results]


def plan_control(layout: Layout, policy: UpkeepPolicy, now: datetime) -> list[UpkeepResult]:
    """Return what `upkeep_control` would remove; nothing, if there is nothing."""
    with ExitStack() as held_leases:
        return _plan_removal(_find_old_leftovers(layout, policy, now, held_leases), policy)


def _plan_removal(old_leftovers: list[Leftover], policy: UpkeepPolicy) -> list[UpkeepResult]:
    if not old_leftovers:
        return []
    file_count = sum(len(leftover.files) for leftover in old_leftovers)
    byte_count = sum(leftover.bytes for leftover in old_leftovers)
    kept_reason = f"what was left behind in the last {policy.keep_versions / DAY_MS:g} days"
    return [UpkeepResult("control", file_count, file_count, byte_count, byte_count, False, (kept_reason,))]


def _find_old_leftovers(layout: Layout, policy: UpkeepPolicy, now: datetime, held_leases: ExitStack) -> list[Leftover]:
    """Return the leftovers that are old enough, and not in use; `held_leases` keeps the leases of what they are of."""
    if not policy.vacuum or (store.is_remote(layout.root) and not store.has_objects(layout.root)):
        return []
    before_time = now.timestamp() - policy.keep_versions / 1000
    find = _find_in_store if store.is_remote(layout.root) else _find_on_disk
    return [
        leftover
        for leftover in find(layout)
        if leftover.newest_time < before_time and _take_lease_if_free(layout, leftover.lease, held_leases)
    ]


def _leftover_places(layout: Layout) -> list[tuple[str, str, str]]:
    """Return where leftovers are, as folder and pattern, and how the names of their leases begin; empty for none."""
    checkpoints = layout.checkpoints("silver").rpartition("/")[0]
    return [
        (layout.requests, "*.refused", ""),
        (layout.restoring, "*", "restoring-"),
        (checkpoints, "silver-*", "checkpoint-"),
    ]


def _find_on_disk(layout: Layout) -> Iterator[Leftover]:
    paths = [(path, "") for path in sorted(Path(layout.root, "control").rglob("*.new")) if path.is_file()]
    for folder, pattern, lease_start in _leftover_places(layout):
        found_paths = sorted(Path(folder).glob(pattern))
        paths += [(path, f"{lease_start}{path.name}" if lease_start else "") for path in found_paths]
    for path, lease in paths:
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        times = [file.stat().st_mtime for file in (path, *files)]
        byte_count = sum(file.stat().st_size for file in files)
        yield Leftover(str(path), lease, tuple(map(str, files)), byte_count, max(times))


def _find_in_store(layout: Layout) -> Iterator[Leftover]:
    for folder, pattern, lease_start in _leftover_places(layout):
        files_by_name: dict[str, list[store.StoredFile]] = defaultdict(list)
        for file in store.objects_below(folder):
            files_by_name[file.path.removeprefix(f"{folder}/").partition("/")[0]].append(file)
        for name in fnmatch.filter(files_by_name, pattern):
            files = files_by_name[name]
            newest_time = max(file.written_at.timestamp() for file in files)
            byte_count = sum(file.bytes for file in files)
            lease = f"{lease_start}{name}" if lease_start else ""
            yield Leftover(f"{folder}/{name}", lease, tuple(file.path for file in files), byte_count, newest_time)


def _remove_leftover(leftover: Leftover) -> None:
    if store.is_remote(leftover.path):
        for file in leftover.files:
            store.delete_object(file)
    elif Path(leftover.path).is_dir():
        shutil.rmtree(leftover.path)
    else:
        Path(leftover.path).unlink(missing_ok=True)


def _take_lease_if_free(layout: Layout, lease: str, held_leases: ExitStack) -> bool:
    """Say whether a lease is free; if so, take it: `held_leases` keeps it."""
    if lease:
        try:
            held_leases.enter_context(Lease(Layout(layout.root).lease(lease), lease))
        except LeaseHeld:
            return False
    return True
