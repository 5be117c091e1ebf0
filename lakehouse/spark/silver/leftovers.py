"""Leftovers of crashes and of removed applications below control/: upkeep removes them when old and not in use.

requests/*.refused   requests that a job could not read, from clients that ended before they got the answer
**/*.new             files that a killed process had not moved into place yet
restoring/*           rows of a restore that was killed; the next restore removes them too
checkpoints/silver-* checkpoints of an application's tables and sinks: a changed set has one of another name
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lakehouse.errors import LeaseHeld
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_remote
from lakehouse.spark.silver.upkeep import Policy, UpkeepResult
from lakehouse.spark.table.files import DAY_MS


def upkeep_control(layout: Layout, policy: Policy, now: datetime) -> list[UpkeepResult]:
    """Remove leftovers older than the retention of versions; the result counts files, not tables.

    On an object store nothing is removed.
    """
    with ExitStack() as held_leases:
        old_paths = _find_old(layout, policy, now, held_leases)
        planned_results = _plan_removal(old_paths, policy)
        for path in old_paths:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return [replace(result, files_after=0, bytes_after=0) for result in planned_results]


def plan_control(layout: Layout, policy: Policy, now: datetime) -> list[UpkeepResult]:
    """Return what `upkeep_control` would remove; nothing, if there is nothing."""
    with ExitStack() as held_leases:
        return _plan_removal(_find_old(layout, policy, now, held_leases), policy)


def _plan_removal(old_paths: list[Path], policy: Policy) -> list[UpkeepResult]:
    if not old_paths:
        return []
    files = [file for path in old_paths for file in _files_below(path)]
    byte_count = sum(file.stat().st_size for file in files)
    kept_reason = f"what was left behind in the last {policy.keep_versions / DAY_MS:g} days"
    return [UpkeepResult("control", len(files), len(files), byte_count, byte_count, False, (kept_reason,))]


def _find_old(layout: Layout, policy: Policy, now: datetime, held_leases: ExitStack) -> list[Path]:
    """Return the leftovers that are old enough, and not in use; `held_leases` keeps the leases of what they are of."""
    if is_remote(layout.root) or not policy.vacuum:
        return []
    before_time = now.timestamp() - policy.keep_versions / 1000
    return [path for path in _find_leftovers(layout, held_leases) if _newest_time(path) < before_time]


def _find_leftovers(layout: Layout, held_leases: ExitStack) -> Iterator[Path]:
    control = Path(layout.root, "control")
    yield from sorted(Path(layout.requests).glob("*.refused"))
    yield from sorted(path for path in control.rglob("*.new") if path.is_file())
    for path in sorted(Path(layout.restoring).glob("*")):
        if _is_free(layout, f"restoring-{path.name}", held_leases):
            yield path
    for path in sorted(Path(layout.checkpoints("silver")).parent.glob("silver-*")):
        if _is_free(layout, f"checkpoint-{path.name}", held_leases):
            yield path


def _is_free(layout: Layout, name: str, held_leases: ExitStack) -> bool:
    """Say whether a lease is free; if so, take it: `held_leases` keeps it."""
    try:
        held_leases.enter_context(Lease(Layout(layout.root).lease(name), name))
    except LeaseHeld:
        return False
    return True


def _files_below(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def _newest_time(path: Path) -> float:
    times: list[float] = [file.stat().st_mtime for file in (path, *_files_below(path))]
    return max(times)
