"""Watches a continuous run from a thread of its own: how many records wait, whether Kafka answers, and the metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.watch.event import JobEvent, Listen
from lakehouse.run.watch.lag import Lag, count_waiting, lag_by_topic
from lakehouse.run.watch.table_rules import RuleWatch
from lakehouse.settings.config import Settings

if TYPE_CHECKING:
    from lakehouse.run.watch.metrics import RunMetrics

LOOK_SECONDS = 15.0
PATIENCE_SECONDS = 5.0
END_SECONDS = 1.0
FAILURES = 2  # in turn, because a look may meet a table that is just being created


class Watcher:
    """Looks at Kafka and at the lake, and reports what it sees. `look` raises nothing: it never ends a run.

    waiting: called at each look, gives the records that wait, and calls what it is given once Kafka has answered;
    lag_seconds: how often to report them, 0.0 for never.
    rules: those of the application's tables; None without any.
    """

    def __init__(
        self,
        waiting: Callable[[Callable[[], None]], Lag],
        listen: Listen,
        metrics: RunMetrics | None,
        lag_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        rules: RuleWatch | None = None,
    ) -> None:
        self._rules = rules
        self._waiting, self._listen, self._metrics, self._lag_seconds = waiting, listen, metrics, lag_seconds
        self._clock, self._began = clock, clock()
        self._away_since: float | None = None
        self._lag_reported_at: float | None = None
        self._failures: Counter[str] = Counter()  # of each part that could not be looked at, in turn

    def look(self) -> None:
        """Look once, at one part after the other: one that can't be read hides no other."""
        now = self._clock()
        self._try("lag", "", lambda: self._look_at_kafka(now))
        for part, name, read in self._metrics.parts() if self._metrics is not None else ():
            self._try(part, name, read)
        for table in self._rules.tables if self._rules is not None else ():
            self._try("rules", table.name, partial(self._look_at_rules, table, now))
        if self._metrics is not None:
            self._metrics.note_look()

    def _try(self, part: str, name: str, look_at_part: Callable[[], None]) -> None:
        """Look at a part, one of the metrics' `WATCHED_PARTS`. name: the table's, if it is about one."""
        part_text = f"{part} of {name}" if name else part
        try:
            look_at_part()
            del self._failures[part_text]
        except Exception as error:  # whatever the error is, the run goes on
            self._failures[part_text] += 1
            if self._metrics is not None:
                self._metrics.note_failure(part)
            if self._failures[part_text] == FAILURES:
                self._say("watch failed", part=part_text, message=f"{type(error).__name__}: {error}")

    def _look_at_kafka(self, now: float) -> None:
        try:
            waiting_records = self._waiting(self._note_answer)
        except KafkaUnavailable as error:
            if self._away_since is None:
                self._away_since = now
                self._say("kafka away", message=str(error))
            if self._metrics is not None:
                self._metrics.note_kafka(is_up=False)
            return
        if self._metrics is not None:
            self._metrics.note_lag(waiting_records)
        if self._lag_seconds and (self._lag_reported_at is None or now - self._lag_reported_at >= self._lag_seconds):
            self._lag_reported_at = now
            self._say("lag", records=sum(waiting_records.values()), topics=lag_by_topic(waiting_records))

    def _note_answer(self) -> None:
        """Note that Kafka answers, whether or not the lake can be read then."""
        if self._away_since is not None:
            self._say("kafka back", away_seconds=round(self._clock() - self._away_since, 3))
            self._away_since = None
        if self._metrics is not None:
            self._metrics.note_kafka(is_up=True)

    def _look_at_rules(self, table: Table, now: float) -> None:
        assert self._rules is not None
        for kind, rules in zip(("rule unmet", "rule met"), self._rules.look(table, now), strict=True):
            for rule in rules:
                self._say(kind, table=rule.table, expectation=rule.rule, reason=rule.reason)
        if self._metrics is not None:
            self._metrics.set_rules({place: unmet is not None for place, unmet in self._rules.unmet.items()})

    def _say(self, kind: str, records: int = 0, **details: object) -> None:
        self._listen(JobEvent(kind, 0, records, self._clock() - self._began, details))


@contextmanager
def watch_run(settings: Settings, app: App, servers: str, listen: Listen) -> Iterator[Listen]:
    """Watch a continuous run while it lasts; give the listener for its events.

    Raises ConfigError if the port for the metrics can't be used.
    """
    cluster = Cluster(servers, settings.kafka.options, PATIENCE_SECONDS)
    stop = threading.Event()
    with _serve_metrics(settings, app) as metrics:

        def pass_on(event: JobEvent) -> None:
            if metrics is not None:
                metrics.count_event(event)
            listen(event)

        rules = RuleWatch(Layout(settings.lake.path), app) if any(table.watched_rules for table in app.tables) else None
        watcher = Watcher(
            lambda note_answer: count_waiting(settings, app, cluster, note_answer),
            pass_on,
            metrics,
            settings.log.lag_seconds,
            rules=rules,
        )

        def watch() -> None:
            while not stop.wait(LOOK_SECONDS):
                watcher.look()

        # A daemon: a Kafka that does not answer must not hold up the end of a run.
        thread = threading.Thread(target=watch, name="watch", daemon=True)
        thread.start()
        try:
            yield pass_on
        finally:
            stop.set()
            thread.join(END_SECONDS)


def _serve_metrics(settings: Settings, app: App) -> AbstractContextManager[RunMetrics | None]:
    if settings.metrics.port is None:
        return nullcontext()
    from lakehouse.run.watch.metrics import serve_metrics  # the client for Prometheus takes a moment to import

    return serve_metrics(settings, app, settings.metrics.port)
