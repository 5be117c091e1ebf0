"""The commits of a Delta table, read from its log one by one, and no further back than is asked.

Spark's `history()` takes more than a minute for a log of 20,000 commits. The commit asked for is nearly always near the
end; older ones are reached by halving, because ticks and commit times only grow from commit to commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """The description that one commit carries. `metadata` is lakehouse's text, {} in the commit of somebody else."""

    version: int
    operation: str
    time_ms: int
    metadata: dict[str, Any] = field(default_factory=dict)


def is_table(path: str | Path) -> bool:
    """Say whether a folder of this machine holds a Delta table: a log with a commit in it.

    Delta makes the folder of a log some time before the first commit: who was killed between leaves an empty one.
    """
    log = Path(path, "_delta_log")
    return log.is_dir() and any(one.name[:20].isdigit() and one.name.endswith(".json") for one in os.scandir(log))


# Yields the lines of a commit's file, one by one: in a large commit, many lines follow the one that is wanted.
ReadLines = Callable[[int], Iterator[str]]


class CommitLog:
    """The log of one table up to a version. `read` raises FileNotFoundError if a commit's file is gone."""

    def __init__(self, read: ReadLines, newest: int) -> None:
        self._read, self.newest = read, newest

    def at(self, version: int) -> CommitInfo | None:
        """Return the description of a version's commit; None if the log does not have it, or no longer."""
        if not 0 <= version <= self.newest:
            return None
        try:
            # It is the first line if commits carry their time; other writers may put it anywhere.
            line = next((line for line in self._read(version) if line.startswith('{"commitInfo"')), None)
        except FileNotFoundError:
            return None
        return CommitInfo(version, "", 0) if line is None else _said(version, json.loads(line)["commitInfo"])

    def back(self, version: int | None = None) -> Iterator[CommitInfo]:
        """Yield the commits from a version, or the newest one, back to where the log begins."""
        number = self.newest if version is None else version
        while (said := self.at(number)) is not None:
            yield said
            number -= 1

    def oldest(self) -> int:
        """Return the first version that the log still has: old ones are removed from its beginning."""
        low, high = 0, self.newest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(middle) is not None else (middle + 1, high)
        return low

    def until(self, version: int) -> CommitLog:
        """Return the same log up to an earlier version."""
        return CommitLog(self._read, version)

    def first(self, past: Callable[[CommitInfo], bool | None]) -> int | None:
        """Return the first version whose commit is past something; None if there is none.

        past: None for a commit that does not tell. After the first one that is past it, all that tell are past it.
        """
        low, high, step = 0, self.newest + 1, 1
        while low < high:
            # Near the end first: the newest are asked for most often.
            middle, step = max((low + high) // 2, high - step), step * 2
            telling = ((said.version, told) for said in self.back(middle) if (told := past(said)) is not None)
            version, is_past = next(telling, (middle, False))
            low, high = (low, version) if is_past else (middle + 1, high)
        return low if low <= self.newest else None


def covers(log: CommitLog, tick: int | None = None) -> dict[str, Any] | None:
    """Return what bronze's commit of a tick covers, or of the last tick; None if the log does not have that commit.

    See `lakehouse.spark.bronze.bronze` for its form.
    """
    later = None if tick is None else log.first(lambda said: _is_past(said.metadata, tick))
    for said in log.back(None if later is None else later - 1):
        if "topics" in said.metadata:
            return said.metadata if tick is None or said.metadata["tick"] == tick else None
    return None


def _is_past(metadata: dict[str, Any], tick: int) -> bool | None:
    return metadata["tick"] > tick if "topics" in metadata else None


def local_log(path: str, newest: int) -> CommitLog:
    """Return the log of the table in a local folder."""
    folder = Path(path, "_delta_log")

    def read(version: int) -> Iterator[str]:
        with (folder / f"{version:020}.json").open(encoding="utf-8") as lines:
            yield from lines

    return CommitLog(read, newest)


def _said(version: int, info: dict[str, Any]) -> CommitInfo:
    text = info.get("userMetadata") or ""
    metadata = json.loads(text) if text.startswith("{") else {}
    time_ms = int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)
    return CommitInfo(version, info.get("operation", ""), time_ms, metadata if isinstance(metadata, dict) else {})
