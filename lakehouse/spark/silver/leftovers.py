"""What crashes, and removed applications, leave below control/: upkeep removes it when it is old and not in use.

requests/*.refused   requests that a job could not read, whose askers ended before they got the answer
**/*.new             files that a killed process had not moved into place yet
restoring/*           rows of a restore that was killed; the next restore removes them too
checkpoints/silver-* of an application's tables and sinks: a changed set of them has a checkpoint of another name
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from lakehouse.errors import LeaseHeld
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.spark.silver.upkeep import Done, Policy
from lakehouse.spark.table.files import DAY_MS


def upkeep_control(layout: Layout, policy: Policy, now: datetime) -> list[Done]:
    """Remove leftovers older than the time that versions are kept; the result counts files, not tables.

    On an object store nothing is removed: no lease there says whether a checkpoint is in use.
    """
    if "://" in layout.root or not policy.vacuum:
        return []
    before = now.timestamp() - policy.keep_versions / 1000
    with ExitStack() as held:
        old = [path for path in _left(layout, held) if _newest(path) < before]
        files = [file for path in old for file in _files(path)]
        size = sum(file.stat().st_size for file in files)
        if not policy.dry_run:
            for path in old:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if not old:
        return []
    then = (len(files), size) if policy.dry_run else (0, 0)
    kept = f"what was left behind in the last {policy.keep_versions / DAY_MS:g} days"
    return [Done("control", len(files), then[0], size, then[1], False, (kept,))]


def _left(layout: Layout, held: ExitStack) -> Iterator[Path]:
    control = Path(layout.root, "control")
    yield from sorted(Path(layout.requests).glob("*.refused"))
    yield from sorted(path for path in control.rglob("*.new") if path.is_file())
    for path in sorted(Path(layout.restoring).glob("*")):
        if _is_free(layout, f"restoring-{path.name}", held):
            yield path
    for path in sorted(Path(layout.checkpoints("silver")).parent.glob("silver-*")):
        if _is_free(layout, f"checkpoint-{path.name}", held):
            yield path


def _is_free(layout: Layout, name: str, held: ExitStack) -> bool:
    """Whether a lease is free; if so, it is taken, and `held` keeps it."""
    try:
        held.enter_context(Lease(Layout(layout.root).lease(name), name))
    except LeaseHeld:
        return False
    return True


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def _newest(path: Path) -> float:
    times: list[float] = [file.stat().st_mtime for file in (path, *_files(path))]
    return max(times)
