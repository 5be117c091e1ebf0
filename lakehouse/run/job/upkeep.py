"""Upkeep in a running job, when it is due, and of a whole application at once, by command.

In a job it runs in the writers' own threads, between two batches: after a number of ticks, but not before a number of
seconds have passed. <lake>/control/upkeep says when it ran last; if that is lost, the count starts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lakehouse.duration import duration_ms
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import ingest_lease, quarantine_lease, table_lease
from lakehouse.lake.layout import Layout
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.settings.config import Upkeep
from lakehouse.spark.cluster.root_cause import root_cause
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver import upkeep
from lakehouse.spark.silver.leftovers import plan_control, upkeep_control
from lakehouse.spark.silver.upkeep import UpkeepPolicy, UpkeepResult

DAY_SECONDS = 86_400.0
# How often VACUUM runs in the time that versions are kept: listing a folder costs more than a few old files would free.
VACUUMS = 7


class Upkeeping:
    """Upkeep of one part of a running job: "silver", or "bronze".

    After it, `on_done(results, seconds)` is called with the results of `work`; after an error `on_failure(message)`.
    Neither stops the job.
    """

    def __init__(
        self,
        layout: Layout,
        settings: Upkeep,
        part: str,
        work: Callable[[UpkeepPolicy], list[UpkeepResult]],
        on_done: Callable[[list[UpkeepResult], float], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._settings, self._do_upkeep, self._on_done, self._on_failure = settings, work, on_done, on_failure
        self._path = f"{layout.upkeep}/{part}.json"
        self._last = self._read_progress()

    def run_if_due(self, tick: int) -> None:
        """Do the upkeep if it is due, between the batch that ended with a tick and the next one."""
        now = time.time()
        # Its tick is ahead of one of a bronze that was made anew, or put back from an older copy, beside this note.
        if not self._last or self._last["tick"] > tick:
            self._write({"tick": tick, "at": now, "vacuum_at": now})
        ticks_passed, seconds_passed = tick - self._last["tick"], now - self._last["at"]
        if (
            not self._settings.enabled
            or ticks_passed < self._settings.every_ticks
            or seconds_passed < self._settings.every_seconds
        ):
            return
        upkeep_policy = upkeep.read_policy(self._settings)
        pause = min(DAY_SECONDS, upkeep_policy.keep_versions / 1000 / VACUUMS)
        upkeep_policy = replace(upkeep_policy, vacuum=now - self._last["vacuum_at"] >= pause)
        started = time.monotonic()
        try:
            with phase("upkeep"):
                finished_steps = self._do_upkeep(upkeep_policy)
        except Exception as error:
            # Whatever the error is, the tables are whole, and the next upkeep goes on where this one ended.
            self._on_failure(f"{type(error).__name__}: {root_cause(str(error))}")
        else:
            self._on_done(finished_steps, time.monotonic() - started)
        self._write(
            {"tick": tick, "at": time.time(), "vacuum_at": now if upkeep_policy.vacuum else self._last["vacuum_at"]}
        )

    def _read_progress(self) -> dict[str, Any]:
        progress = note.read(self._path)
        return progress if progress is not None and {"tick", "at", "vacuum_at"} <= set(progress) else {}

    def _write(self, progress: dict[str, Any]) -> None:
        self._last = progress
        note.write(self._path, progress)


@phase("upkeep of the tables")
def upkeep_tables(lake: OpenLake, app: App, policy: UpkeepPolicy, tables: Iterable[Table]) -> list[UpkeepResult]:
    """Do the upkeep of an application's tables, whose leases the caller holds."""
    upkeep_time, finished_steps = datetime.now(UTC), []
    for table in tables:
        finished_steps += upkeep.upkeep_table(
            lake.open(table), policy, upkeep_time, _published_ticks(lake.layout, app, table)
        )
    return finished_steps


def keep_versions_at_least(settings: Upkeep, keep: str | None) -> Upkeep:
    """Return settings that keep versions at least for a time such as "168 hours"; longer if the settings say so.

    Raises PlanError for a text that is not a duration.
    """
    if keep is None or duration_ms(keep, "keep-at-least") <= duration_ms(settings.keep_versions, "keep_versions"):
        return settings
    return replace(settings, keep_versions=keep)


def upkeep_by_command(lake: OpenLake, app: App, settings: Upkeep, table_names: Collection[str]) -> list[UpkeepResult]:
    """Do the upkeep of some tables of an application; without names, of all its tables, its quarantines and bronze.

    Raises LeaseHeld while a job writes them, because that job does the upkeep itself.
    """
    upkeep_policy = upkeep.read_policy(settings)
    with _hold_leases(lake.layout, app, table_names) as chosen_tables:
        finished_steps = upkeep_tables(lake, app, upkeep_policy, chosen_tables)
        if not table_names:
            finished_steps += upkeep.upkeep_quarantine(lake, app.sources, upkeep_policy)
            finished_steps += upkeep.upkeep_bronze(lake, app.own_topics, upkeep_policy)
            finished_steps += upkeep_control(lake.layout, upkeep_policy, datetime.now(UTC))
    return finished_steps


def plan_by_command(lake: OpenLake, app: App, settings: Upkeep, table_names: Collection[str]) -> list[UpkeepResult]:
    """Return what `upkeep_by_command` would do. Raises LeaseHeld as it does."""
    upkeep_policy, upkeep_time = upkeep.read_policy(settings), datetime.now(UTC)
    with _hold_leases(lake.layout, app, table_names) as chosen_tables:
        plans = [
            upkeep.plan_table(lake.open(table), upkeep_policy, upkeep_time, _published_ticks(lake.layout, app, table))
            for table in chosen_tables
        ]
        if table_names:
            return [result for plan in plans for result in plan.expected_results()]
        plans.append(upkeep.plan_quarantine(lake, app.sources, upkeep_policy))
        plans.append(upkeep.plan_bronze(lake, app.own_topics, upkeep_policy))
        leftovers = plan_control(lake.layout, upkeep_policy, upkeep_time)
    return [result for plan in plans for result in plan.expected_results()] + leftovers


@contextmanager
def _hold_leases(layout: Layout, app: App, table_names: Collection[str]) -> Iterator[list[Table]]:
    """Hold the leases of the named tables, or without names of all that the application writes; yield the tables."""
    chosen_tables = [app.table(name) for name in table_names] if table_names else list(app.tables)
    leases = [table_lease(layout, table.name) for table in chosen_tables]
    if not table_names:
        leases += [quarantine_lease(layout, source.name) for source in app.sources]
        leases += [ingest_lease(layout)]
    with ExitStack() as stack:
        for lease in leases:
            stack.enter_context(lease)
        yield chosen_tables


def _published_ticks(layout: Layout, app: App, table: Table) -> dict[str, int]:
    """Return how far the table's net changelogs are published, as the lake notes it.

    A store without notes: nothing counts as published, so upkeep keeps every version that a net changelog may need.
    """
    ticks_by_topic = {}
    for sink in app.sinks:
        if sink.source == table and sink.mode == "net":
            progress = note.read(layout.published(sink.topic)) or {}
            ticks_by_topic[sink.topic] = int(progress.get("tick", 0))
    return ticks_by_topic
