"""Erasures of records on request; part of `lakehouse.run.lake.Lake`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake.erasure import erasure_log
from lakehouse.lake.erasure.erasure_log import Erasure
from lakehouse.lake.erasure.subject import ErasureSubject
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.run.deploy.deployments import Deployments
from lakehouse.semantics.time.named_moment import ranges_of

if TYPE_CHECKING:
    from lakehouse.run.erase.erasure import Erased, ErasurePlan
    from lakehouse.run.repair.backfill import ShowProgress


def _subject_of(keys: Mapping[str, str], named_by: Sequence[str], records: str | None) -> ErasureSubject:
    return ErasureSubject(dict(keys), tuple(named_by), {} if records is None else ranges_of(records, by_id=True))


class Erasures(Deployments):
    """Erasures: a person's records leave the lake, with everything that was made from them, and a search proves it."""

    def erasures(self) -> list[Erasure]:
        """Return the erasures of the lake, the oldest first; without Spark."""
        return erasure_log.read_erasures(self._layout)

    @phase("plan of the erasure")
    def plan_erasure(
        self,
        app: App,
        keys: Mapping[str, str],
        *,
        named_by: Sequence[str] = (),
        records: str | None = None,
        values: Iterable[str] = (),
        source: bool = False,
        reason: str = "",
    ) -> ErasurePlan:
        """Say what `erase` would do: the records by topic, the tables, the topics, and the stages. Nothing is changed.

        The plan's `reverted` tables are refused by `erase` without rebuild_reverted. Raises PlanError or ConfigError
        for a request, or an application, that can't be; NotFound if there is no such record.
        """
        self._check_bronze(app)
        from lakehouse.run.erase.erasure import plan_erasure

        subject = _subject_of(keys, named_by, records)
        return plan_erasure(self._lake, app.with_upstream, subject, values, reason, source=source)

    @phase("erasure")
    def erase(
        self,
        app: App,
        keys: Mapping[str, str],
        *,
        named_by: Sequence[str] = (),
        records: str | None = None,
        values: Iterable[str] = (),
        source: bool = False,
        rebuild_reverted: bool = False,
        reason: str = "",
        by: str | None = None,
        listen: ShowProgress | None = None,
    ) -> Erased:
        """Erase records from bronze and from everything that the lake made from them, and search for what is left.

        app: all tables of the lake. keys: the text of a key by the name of its stream, {"customers": "4711"}. named_by:
        "stream.column", columns that hold such a key; "stream.column=text", those that hold a text. records: further
        ones, "topic/partition=first..last,..."; of a topic that was recreated "topic@id/partition=...". values: further
        texts to search for, such as a name. source: take in what the topics have, write tombstones of the keys to the
        topics of their streams, and take these in, before anything else; what can't be erased is refused before.
        rebuild_reverted: also build tables again that were reverted: what the revert took away comes back. listen: see
        `backfill`. After a kill, call it again with the same keys, columns and records: it goes on.
        Raises PlanError, ConfigError, NotFound without such a record, LeaseHeld while a job runs, KafkaUnavailable if
        changes can't be published.
        """
        self._check_bronze(app)
        from lakehouse.run.erase.erasure import Eraser, plan_erasure, refuse_reverted
        from lakehouse.run.repair.backfill import ignore_progress
        from lakehouse.run.repair.intervene import Why
        from lakehouse.run.start.leases import check_leases

        app = app.with_upstream
        check_leases(self.settings, app, None)
        subject = _subject_of(keys, named_by, records)
        values = tuple(values)

        def refuse_now() -> None:
            with suppress(NotFound):  # what is not taken in yet, or is erased already
                plan = plan_erasure(self._lake, app, subject, values, reason)
                refuse_reverted(() if rebuild_reverted else plan.reverted)

        if source:
            self._write_to_sources(app, subject, refuse_now)
        eraser = Eraser(self._lake, app, Why(reason, by), lambda: self._publish(app), listen or ignore_progress)
        return eraser.erase(subject, values, source=source, rebuild_reverted=rebuild_reverted)

    def verify_erasure(
        self,
        keys: Mapping[str, str],
        *,
        named_by: Sequence[str] = (),
        records: str | None = None,
        values: Iterable[str] = (),
    ) -> Erased:
        """Search every file of the lake for the keys of an erasure, and for further values; without Spark.

        A search that lacks a value of an earlier one does not finish an erasure. Raises NotFound for what nobody has
        asked to erase, ConfigError for a key that can't be searched for by itself. The rest: see `erase`.
        """
        from lakehouse.run.erase.erasure import Erased
        from lakehouse.run.erase.search import refuse_unsearchable, search_erased

        subject = _subject_of(keys, named_by, records)
        erasure = erasure_log.find_erasure(self.erasures(), subject)
        if erasure is None:
            raise NotFound("erase: nobody has asked to erase this; expected the same keys, columns and records.")
        if not erasure.has_reached("purged"):
            raise ConfigError(
                "erase: the erasure was interrupted; expected a finished one. Give the same command without --verify: "
                "it goes on."
            )
        values = tuple(values)
        refuse_unsearchable(subject, erasure.types, values)
        erasure, result = search_erased(self._layout, erasure, subject, values)
        return Erased(erasure, occurrences=result.occurrences)

    def _write_to_sources(self, app: App, subject: ErasureSubject, refuse_now: Callable[[], None]) -> None:
        """Write tombstones to the topics of the keys, and take them in; nothing if an erasure has come further.

        Before, everything that the topics have is taken in: a partition without a record in bronze would get none.
        refuse_now: raises an error if the erasure can't be.
        """
        from lakehouse.run.erase.source_tombstones import needs_tombstones, write_tombstones
        from lakehouse.run.job.job import Job
        from lakehouse.run.start.kafka import open_kafka

        erasures = self.erasures()
        if not needs_tombstones(erasures, subject):
            return
        has_written_before = any(item.source and item.is_about(subject) for item in erasures)
        refuse_now()
        with open_kafka(self.settings) as servers:
            Job(self.spark, self.settings, app, servers).until_caught_up()
            refuse_now()
            if write_tombstones(
                self._lake,
                app,
                subject,
                servers,
                self.settings.kafka.options,
                has_written_before=has_written_before,
            ):
                Job(self.spark, self.settings, app, servers).until_caught_up()

    def _publish(self, app: App) -> None:
        """Publish what the tables of an application have changed."""
        from lakehouse.run.job.job import Job
        from lakehouse.run.start.kafka import open_kafka

        with open_kafka(self.settings) as servers:
            Job(self.spark, self.settings, app, servers).until_caught_up(("silver",))
