"""The snapshots that a declaration's files hold: each a time, and the files, or the version, with all rows of then."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, NotFound, StorageError, reason_of_error
from lakehouse.formats.values.text_value import text_reader
from lakehouse.formats.values.unfit import Unfit
from lakehouse.lake import store
from lakehouse.lake.commit_log import commit_time_ms
from lakehouse.lake.reader import walk_log
from lakehouse.markup.plain import plain_text
from lakehouse.plan.origin import SNAPSHOT_TIME, Snapshots
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.time.years import is_possible_time

# A file's name can't have colons everywhere: hyphens or nothing between hours, minutes and seconds are common.
_CLOCK = re.compile(r"(?<=\d)[T_ ](\d\d)([-_]?)(\d\d)(?:\2(\d\d))?(?=$|[Zz+.,-])")
_DAY = r"(?:\d{8}|\d{4}-\d\d-\d\d)"
# A time in a name: a day, maybe a time of the day, with the same text between its parts, maybe a zone. No digit
# follows: of 20260131120000 the day alone would make one snapshot of all times of the day.
_TIME = (
    rf"(?P<time>{_DAY}"
    r"(?:[Tt_ ]\d\d(?P<between>[-_:]?)\d\d(?:(?P=between)\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?)(?!\d)"
)


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """All rows of a table at a time, in milliseconds. version: of a Delta table, whose folder is the only file."""

    time_ms: int
    files: tuple[str, ...]
    version: int | None = None


class VersionGone(NotFound):
    """A version of a Delta table that can't be read any more: its files, or its part of the log, were removed."""

    def __init__(self, path: str, version: int, reason: str) -> None:
        super().__init__(f"{path}: version {version} can't be read any more: {reason}.")
        self.version = version


def list_snapshots(declared: Snapshots) -> list[SourceSnapshot]:
    """Return the snapshots that there are, the earliest first, of names or versions that say their times.

    Raises ConfigError for a name that fits the path, and whose time is none; StorageError, NotFound.
    """
    if declared.kind == "delta":
        return _list_versions(declared)
    files_by_time: dict[int, list[str]] = defaultdict(list)
    for path, time_text in matching_files(declared):
        files_by_time[time_of_name(time_text, path)].append(path)
    return [SourceSnapshot(time_ms, tuple(sorted(files_by_time[time_ms]))) for time_ms in sorted(files_by_time)]


def matching_files(declared: Snapshots) -> Iterator[tuple[str, str]]:
    """Yield the files of a path, in the order of their names, with the text in place of SNAPSHOT_TIME."""
    # The text of a time goes as far as it can: a `*` behind it has the rest. Any other text in its place is refused.
    patterns = [_path_pattern(declared.path, time_pattern) for time_pattern in (_TIME, "(?P<time>[^/]+)")]
    for path in sorted(_files_below(_fixed_folder(declared.path))):
        if (match := patterns[0].fullmatch(path) or patterns[1].fullmatch(path)) is not None:
            yield path, match.groupdict().get("time") or ""


def time_of_name(text: str, path: str) -> int:
    """Return the time in a file's name, in milliseconds. Raises ConfigError."""
    clock_text = _CLOCK.sub(lambda match: "T" + ":".join(part for part in match.group(1, 3, 4) if part), text)
    try:
        if not re.match(_DAY, text):
            raise Unfit("")
        moment = text_reader("timestamp")(clock_text)
    except Unfit:
        raise ConfigError(
            f"{path}: found {text!r} for the time of the snapshot; expected ISO 8601, such as 2026-01-31, "
            "2026-01-31T12-00 or 20260131T120000Z. Rename the file, or move it away."
        ) from None
    return check_time(int(moment.timestamp() * 1000), path)


def check_time(time_ms: int, path: str) -> int:
    """Return the time of a snapshot. Raises ConfigError for one that Kafka, or a calendar, does not have."""
    if time_ms < 1 or not is_possible_time(time_ms):
        raise ConfigError(f"{path}: found {time_ms} ms for the time of the snapshot; expected one after 1970-01-01.")
    return time_ms


def time_text(time_ms: int) -> str:
    """Return the time of a snapshot for people."""
    return plain_text(to_datetime(time_ms))


def _list_versions(declared: Snapshots) -> list[SourceSnapshot]:
    """Return the versions of a Delta table that its log still has. Two at one millisecond have one time each.

    Raises NotFound; StorageError for a table that can't be read, or its store, and for a commit that has no time.
    Whether a version is whole is known when its files are read: see VersionGone.
    """
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        # `DeltaTable.history` leaves out a commit that says nothing about itself, and numbers the others without it.
        commits = list(walk_log(declared.path, store.open_delta(declared.path).version()))
    except TableNotFoundError:
        raise NotFound(
            f"{declared.path}: found no Delta table; expected the folder of one, with a _delta_log."
        ) from None
    except (DeltaError, OSError) as error:
        raise unreadable_table(declared.path, error) from None
    snapshots: list[SourceSnapshot] = []
    for commit in reversed(commits):
        version = commit["version"]
        time_ms = check_time(_time_of_commit(commit, declared.path), f"{declared.path}, version {version}")
        if snapshots and time_ms <= snapshots[-1].time_ms:  # a clock that went back: the versions have the order
            time_ms = snapshots[-1].time_ms + 1
        snapshots.append(SourceSnapshot(time_ms, (declared.path,), version))
    return snapshots


def _time_of_commit(commit: Mapping[str, Any], path: str) -> int:
    """Return the time of a commit in milliseconds. Raises StorageError for one without: Delta asks for none."""
    if time_ms := commit_time_ms(commit):
        return time_ms
    raise StorageError(
        f"{path}: version {commit['version']} says no time; expected a commitInfo with a timestamp in its commit, as "
        "Spark and delta-rs write it. Export the table's versions to files with times in their names."
    )


def unreadable_table(path: str, error: Exception) -> StorageError:
    """Return the error for a Delta table that can't be read."""
    return StorageError(
        f"{path}: can't be read as a Delta table: {error}. Expected one that this user may read, with features that "
        "delta-rs knows. Look at the table, and for a store at [lake] options."
    )


def _path_pattern(path: str, time_pattern: str) -> re.Pattern[str]:
    """Return the expression of the paths that a declared one means: neither * nor a time goes over a slash."""
    parts = re.split(rf"({re.escape(SNAPSHOT_TIME)}|\*)", path)
    part_patterns = {SNAPSHOT_TIME: time_pattern, "*": "[^/]*"}
    return re.compile("".join(part_patterns.get(part, re.escape(part)) for part in parts))


def _fixed_folder(path: str) -> str:
    """Return the folder in a path before its first part that stands for several names."""
    fixed_text = re.split(rf"{re.escape(SNAPSHOT_TIME)}|\*", path)[0]
    return fixed_text.rpartition("/")[0] or "/"


def _files_below(folder: str) -> Iterable[str]:
    if store.is_remote(folder):
        return store.files_below(folder)
    if not Path(folder).is_dir():
        raise NotFound(f"{folder}: found no such folder; expected the one with the snapshots' files.")

    def on_error(error: OSError) -> None:
        raise ConfigError(f"{error.filename}: can't be listed: {reason_of_error(error)}.") from error

    return [str(Path(path, name)) for path, _, names in os.walk(folder, onerror=on_error) for name in names]
