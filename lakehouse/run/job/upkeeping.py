"""When upkeep is due in a running job, and the upkeep of a whole application at once, by command.

In a job it runs in the writers' own threads, between two batches: after a number of ticks, but not before a number of
seconds have passed. <lake>/control/upkeep says when it was done last; if that is lost, the count starts again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.durable import read_object, write_durably
from lakehouse.duration import duration_ms
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.settings.config import Upkeep
from lakehouse.spark.failure import cause
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver import upkeep
from lakehouse.spark.silver.leftovers import upkeep_control
from lakehouse.spark.silver.upkeep import Done, Policy
from lakehouse.spark.silver.writer import own_topics

DAY_SECONDS = 86_400.0
# How often VACUUM runs in the time that versions are kept: listing a folder costs more than a few old files free.
VACUUMS = 7


class Upkeeping:
    """Upkeep of one part of a running job: "silver", or "bronze".

    `told(done, seconds)` gets the steps done, `failed(message)` what went wrong; neither stops the job.
    """

    def __init__(
        self,
        layout: Layout,
        settings: Upkeep,
        part: str,
        work: Callable[[Policy], list[Done]],
        told: Callable[[list[Done], float], None],
        failed: Callable[[str], None],
    ) -> None:
        self._settings, self._work, self._told, self._failed = settings, work, told, failed
        path = f"{layout.upkeep}/{part}.json"
        self._path = None if "://" in path else Path(path)
        self._last = self._read()

    def after(self, tick: int) -> None:
        """Do the upkeep if it is due, between the batch that ended with a tick and the next one."""
        now = time.time()
        if not self._last:
            self._write({"tick": tick, "at": now, "vacuum_at": now})
        ticks, seconds = tick - self._last["tick"], now - self._last["at"]
        if not self._settings.enabled or ticks < self._settings.every_ticks or seconds < self._settings.every_seconds:
            return
        policy = upkeep.policy(self._settings)
        pause = min(DAY_SECONDS, policy.keep_versions / 1000 / VACUUMS)
        policy = replace(policy, vacuum=now - self._last["vacuum_at"] >= pause)
        began = time.monotonic()
        try:
            done = self._work(policy)
        except Exception as error:
            # Whatever the error is: the tables are whole, and the next upkeep goes on where this one ended.
            self._failed(f"{type(error).__name__}: {cause(str(error))}")
        else:
            self._told(done, time.monotonic() - began)
        self._write({"tick": tick, "at": time.time(), "vacuum_at": now if policy.vacuum else self._last["vacuum_at"]})

    def _read(self) -> dict[str, Any]:
        said = read_object(self._path) if self._path is not None else None
        return said if said is not None and {"tick", "at", "vacuum_at"} <= set(said) else {}

    def _write(self, said: dict[str, Any]) -> None:
        self._last = said
        if self._path is not None:
            write_durably(self._path, json.dumps(said))


def of_tables(lake: OpenLake, app: App, policy: Policy, tables: Iterable[Table]) -> list[Done]:
    """Do the upkeep of an application's tables, whose leases the caller holds."""
    now, done = datetime.now(UTC), []
    for table in tables:
        done += upkeep.upkeep(lake.open(table), policy, now, _published(lake.layout, app, table))
    return done


def at_least(settings: Upkeep, keep: str | None) -> Upkeep:
    """Return settings that keep versions at least for a time such as "168 hours"; longer if the settings say so.

    Raises PlanError for a text that is not a duration.
    """
    if keep is None or duration_ms(keep, "keep-at-least") <= duration_ms(settings.keep_versions, "keep_versions"):
        return settings
    return replace(settings, keep_versions=keep)


def by_command(lake: OpenLake, app: App, settings: Upkeep, names: Iterable[str], *, dry_run: bool) -> list[Done]:
    """Do the upkeep of some tables of an application; without names, of all of it, with its quarantines and bronze.

    Raises LeaseHeld while a job writes them: it does the upkeep itself.
    """
    policy = upkeep.policy(settings, dry_run=dry_run)
    names = list(names)
    wanted = [app.table(name) for name in names] if names else list(app.tables)
    leases = [(f"silver-{table.name}", f"table {table.name!r}") for table in wanted]
    if not names:
        leases += [(f"stream-{source.name}", f"the quarantine of stream {source.name!r}") for source in app.sources]
        leases += [("ingest", "bronze")]
    with ExitStack() as stack:
        for lease, what in leases:
            stack.enter_context(Lease(lake.layout.lease(lease), what))
        done = of_tables(lake, app, policy, wanted)
        if not names:
            done += upkeep.upkeep_quarantine(lake, app, policy)
            done += upkeep.upkeep_bronze(lake, own_topics(app), policy)
            done += upkeep_control(lake.layout, policy, datetime.now(UTC))
    return done


def _published(layout: Layout, app: App, table: Table) -> dict[str, int]:
    """How far the table's net changelogs are published, as the lake remembers; on an object store it does not."""
    found = {}
    for sink in app.sinks:
        if sink.of == table and sink.mode == "net" and "://" not in layout.root:
            remembered = Path(layout.published(sink.topic))
            said = read_object(remembered) or {}
            found[sink.topic] = int(said.get("tick", 0))
    return found
