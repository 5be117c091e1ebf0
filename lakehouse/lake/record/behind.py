"""How far a table is behind bronze: the records of its topics that it has not taken in, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakehouse.lake import store
from lakehouse.lake.commit_log import CommitInfo, TickCoverage, open_log, tick_coverage
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.covered import condition_of_own_records, count_records


class Behind(NamedTuple):
    """How many records a table lacks. since_ms: when bronze got the first of them; None if the table lacks none."""

    records: int = 0
    since_ms: int | None = None

    def seconds(self, now_ms: float) -> float:
        """Return for how long the table has lacked records. now_ms: the present, in milliseconds since 1970."""
        return 0.0 if self.since_ms is None else max(0.0, (now_ms - self.since_ms) / 1000)


def measure_behind(layout: Layout, coverage: TickCoverage, table: str, topics: Iterable[str], tick: int) -> Behind:
    """Return how far a table that reads these topics is behind bronze. coverage: bronze's. tick: the table's last."""
    topic_names = list(topics)
    records = count_lacking(layout, coverage, table, topic_names, tick)
    return Behind(records, _first_time_ms(layout, topic_names, tick)) if records else Behind()


def count_lacking(layout: Layout, coverage: TickCoverage, table: str, topics: Iterable[str], tick: int) -> int:
    """Return how many records of these topics a table lacks: see `measure_behind`."""
    # A topic's state in the commits may show that nothing is missing; otherwise count its records.
    moved_topics = [topic for topic in topics if coverage.last_tick([topic]) > tick]
    if not moved_topics:
        return 0
    own_condition = condition_of_own_records(layout, table)
    return count_records(layout, moved_topics, f"tick > {tick}" + (f" AND {own_condition}" if own_condition else ""))


def _first_time_ms(layout: Layout, topics: list[str], tick: int) -> int | None:
    """Return when bronze committed the first tick after `tick` that moved one of these topics."""

    def is_later(commit: CommitInfo) -> bool | None:
        coverage = tick_coverage(commit)
        return None if coverage is None else coverage.last_tick(topics) > tick

    log = open_log(layout.records, store.open_delta(layout.records).version())
    version = log.find_first(is_later)
    commit = None if version is None else log.commit_at(version)
    return None if commit is None else commit.time_ms
