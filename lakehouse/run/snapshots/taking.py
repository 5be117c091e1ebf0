"""Takes snapshots in: compares those that are new with their topics, and writes what differs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile

from lakehouse.errors import KafkaUnavailable, LakehouseError
from lakehouse.kafka.snapshot_topic import Differences, SnapshotTopic
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import store
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.run.snapshots.files import SourceSnapshot, VersionGone, list_snapshots, matching_files, time_text
from lakehouse.run.snapshots.known_rows import known_rows
from lakehouse.run.snapshots.rows import FileSizes, FileStamp, file_sizes, file_stamps, read_rows, time_of_column
from lakehouse.settings.config import Settings

LOOK_SECONDS = 30.0
SETTLE_SECONDS = 1.0  # between the two looks of a run that ends by itself
END_SECONDS = 10.0
FAILURES_TOLD = 2
# Called for each snapshot that was taken in, with what differed and the seconds that it took.
Taken = Callable[[Source, SourceSnapshot, Differences, float], None]
# Called with the kind of an event, and its message for people.
Warn = Callable[[str, str], None]


class Snapshotting:
    """Takes in the snapshots of an application's sources. It keeps what it knows of the topics between two looks."""

    def __init__(self, settings: Settings, app: App, cluster: Cluster, on_taken: Taken, warn: Warn) -> None:
        self._settings, self._cluster, self._on_taken, self.warn = settings, cluster, on_taken, warn
        self.sources = app.snapshot_sources
        self._topics: dict[str, SnapshotTopic] = {}
        self._times = FileTimes()
        self._sizes: dict[str, dict[int, FileSizes]] = {}  # at the last look, by topic and time of a snapshot
        self._left_out: set[tuple[str, int | None]] = set()  # topics, and versions that will never be whole again
        for source in self.sources:
            use_store_of(source, settings)

    def look(self) -> None:
        """Take in what is new of all sources, in the order of time. It warns of snapshots that are still being written.

        Raises the first error of `look_at`, after it has looked at the other sources.
        """
        errors: list[LakehouseError] = []

        def look_at_each(sources: Iterable[Source]) -> list[Source]:
            """Return the sources with files that are not settled."""
            unsettled_sources = []
            for source in sources:
                try:
                    if not self.look_at(source):
                        unsettled_sources.append(source)
                except LakehouseError as error:
                    errors.append(error)
            return unsettled_sources

        if unsettled_sources := look_at_each(self.sources):
            time.sleep(SETTLE_SECONDS)
            for source in look_at_each(unsettled_sources):
                assert source.snapshots is not None
                self.warn(
                    "snapshot delayed",
                    f"{source.snapshots.path}: files of a snapshot came, or grew, within {SETTLE_SECONDS:g} s. It and "
                    "later ones are taken in by a run that finds them as they were. Run again when they are written.",
                )
        if errors:
            raise errors[0]

    def look_at(self, source: Source, stop: Callable[[], bool] = lambda: False) -> bool:
        """Take in what is new of one source. stop: asked before each snapshot.

        A snapshot of several files is taken in once they were the same at the look before, and had the same sizes: how
        many there will be, nobody says. Return whether none waits for that. Versions of a Delta table that are gone are
        left out: a later one has what they changed. Raises ConfigError for a file that does not fit, StorageError,
        NotFound, KafkaUnavailable.
        """
        assert source.snapshots is not None
        waiting = self._times.snapshots_of(source)
        topic_id = self._cluster.topics([source.topic])[source.topic].id
        # Once something was not written, the topic is read anew: what it holds is known then.
        topic = self._topics.pop(source.topic, None)
        if topic is None or topic.id != topic_id:
            topic = SnapshotTopic(self._cluster, self._settings.kafka.options, source.topic)
            if (earlier_rows := known_rows(Layout(self._settings.lake.path), topic)) is not None:
                topic.expect_known_rows(earlier_rows.keys, earlier_rows.newest_ms)
        new_snapshots = [
            snapshot
            for snapshot in waiting
            if topic.lacks_snapshot(snapshot.time_ms) and (source.topic, snapshot.version) not in self._left_out
        ]
        settled_snapshots = self._settled(source, new_snapshots)
        gone: list[VersionGone] = []
        try:
            for snapshot in settled_snapshots:
                if stop():
                    return True
                try:
                    self._take_snapshot(source, snapshot, topic)
                except VersionGone as error:
                    if snapshot is waiting[-1]:
                        raise  # the table as it is now is broken
                    self._left_out.add((source.topic, snapshot.version))
                    gone.append(error)
        finally:
            if gone:
                self.warn("snapshot left out", _describe_gone(source.snapshots.path, gone))
        self._topics[source.topic] = topic
        return len(settled_snapshots) == len(new_snapshots)

    def _settled(self, source: Source, snapshots: list[SourceSnapshot]) -> list[SourceSnapshot]:
        """Return the snapshots before the first whose files, or their sizes, were others at the look before."""
        assert source.snapshots is not None
        if "*" not in source.snapshots.path:
            return snapshots  # one file each, which is renamed when it is whole
        sizes_before = self._sizes.get(source.topic, {})
        sizes_now = {snapshot.time_ms: file_sizes(snapshot.files) for snapshot in snapshots}
        self._sizes[source.topic] = sizes_now
        return list(takewhile(lambda each: sizes_before.get(each.time_ms) == sizes_now[each.time_ms], snapshots))

    def _take_snapshot(self, source: Source, snapshot: SourceSnapshot, topic: SnapshotTopic) -> None:
        assert source.snapshots is not None
        started = time.monotonic()
        rows = read_rows(source, snapshot)
        differences = topic.write(snapshot.time_ms, rows, allow_empty=source.snapshots.allow_empty)
        if differences.total:
            self._on_taken(source, snapshot, differences, time.monotonic() - started)


class FileTimes:
    """The snapshots of a source; files whose time stands in a column are read for it when they are new, or replaced."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[FileStamp, int]] = {}

    def snapshots_of(self, source: Source) -> list[SourceSnapshot]:
        """Return the snapshots that there are, the earliest first."""
        assert source.snapshots is not None
        if not source.snapshots.time_column:
            return list_snapshots(source.snapshots)
        by_time: dict[int, SourceSnapshot] = {}
        for path, stamp in file_stamps([path for path, _ in matching_files(source.snapshots)]).items():
            known_stamp, time_ms = self._times.get(path, (None, 0))
            if stamp != known_stamp:
                time_ms = time_of_column(source, path)
                self._times[path] = (stamp, time_ms)
            earlier = by_time.get(time_ms, SourceSnapshot(time_ms, ()))
            by_time[time_ms] = replace(earlier, files=(*earlier.files, path))
        return [by_time[time_ms] for time_ms in sorted(by_time)]


def describe_snapshots(app: App) -> list[dict[str, object]]:
    """Return what there is on this machine of an application's snapshots, for people; of stores only where they are."""
    descriptions: list[dict[str, object]] = []
    for source in app.snapshot_sources:
        assert source.snapshots is not None
        description: dict[str, object] = {"topic": source.topic, "path": source.snapshots.path}
        if not store.is_remote(source.snapshots.path):
            snapshots = FileTimes().snapshots_of(source)
            times = [time_text(snapshot.time_ms) for snapshot in snapshots]
            description |= {
                "snapshots": len(times),
                "first": min(times, default=None),
                "last": max(times, default=None),
            }
        descriptions.append(description)
    return descriptions


def _describe_gone(path: str, gone: Sequence[VersionGone]) -> str:
    versions = [error.version for error in gone]
    return (
        f"{path}: {len(gone):,} of its versions can't be read any more, and are left out: {_format_ranges(versions)}. "
        f"What changed in them comes with the next version, at that one's time. The first: {gone[0]} Let a run look "
        "more often, or keep files and log longer: delta.deletedFileRetentionDuration, delta.logRetentionDuration."
    )


def _format_ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers as text, those that follow each other as a range."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)


def use_store_of(source: Source, settings: Settings) -> None:
    """Reach the files of a source as the lake's own store is reached, and leave the lake's leases alone."""
    assert source.snapshots is not None
    bucket = "/".join(source.snapshots.path.split("/")[:3])
    store.use_source_store(bucket, settings.lake.options)


@contextmanager
def keep_looking(snapshotting: Snapshotting) -> Iterator[None]:
    """Look for new snapshots from a thread of its own, now and every 30 seconds, while the block lasts.

    It warns when a snapshot can't be taken in, once for the same message of a source; and once when Kafka has not taken
    a source's snapshots at several looks, whatever it said.
    """
    if not snapshotting.sources:
        yield
        return
    stop = threading.Event()

    messages: dict[str, str] = {}
    failures: Counter[str] = Counter()  # looks in a row at which Kafka was away, or refused, by topic

    def look_at(source: Source) -> None:
        try:
            snapshotting.look_at(source, stop.is_set)
            messages.pop(source.topic, None)
            del failures[source.topic]
        except KafkaUnavailable as error:
            failures[source.topic] += 1
            if failures[source.topic] == FAILURES_TOLD:  # for a short while, it is enough that the run says it
                snapshotting.warn("snapshot delayed", f"{error} Every {LOOK_SECONDS:g} s it is tried again.")
        except Exception as error:  # whatever it is, the thread goes on: later looks may find files that can be read
            text = str(error) if isinstance(error, LakehouseError) else f"{type(error).__name__}: {error}"
            del failures[source.topic]
            if messages.get(source.topic) != text:
                messages[source.topic] = text
                snapshotting.warn("snapshot refused", text)

    def watch() -> None:
        while not stop.is_set():
            for source in snapshotting.sources:
                look_at(source)
            stop.wait(LOOK_SECONDS)

    thread = threading.Thread(target=watch, name="snapshots", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(END_SECONDS)
