"""Requests for interventions: if no job runs they are done here; else the jobs that hold bronze and the tables do them.

The job that ingests gives an intervention its tick, since only it writes bronze: it is asked by a file below
control/requests, which it takes up between two ticks. The job that keeps a table applies the intervention when it
reaches that tick. So nothing is stopped, and the process that asked waits for the result.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lakehouse.durable import write_durably
from lakehouse.errors import LeaseHeld, StorageError
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.plan.app import App
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Kind, Wanted, person
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.past import present
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.silver.writer import latest_complete_tick

POLL_SECONDS = 0.5
STANDSTILL_SECONDS = 600.0
REFUSED = ".refused"


@dataclass(frozen=True, slots=True)
class Why:
    """Why an intervention is made, and who decided it, beside the operating system's user; both are kept with it."""

    reason: str = ""
    by: str | None = None

    def wanted(self, kind: Kind, tables: Iterable[str], details: Mapping[str, Any], id: str | None = None) -> Wanted:
        """Return the intervention to ask for. id: of the records that were kept for it, if it has any."""
        return Wanted(kind, tuple(tables), details, self.reason, id or uuid.uuid4().hex, person(self.by))


UNSAID = Why()


def intervene(lake: OpenLake, app: App, wanted: Wanted) -> int:
    """Decide on an intervention, and bring its tables to it; return its tick.

    Raises StorageError if a killed ingest left a tick half written, or if a running job can't read the request;
    LeaseHeld if another process holds a table and does not reach the tick; PlanError if the lake has a table above
    under another declaration.
    """
    for name in wanted.tables:
        present.check_declared_above(lake.open(app.table(name)))
    at = _decide(lake, wanted)
    for name in wanted.tables:
        _bring(lake.open(app.table(name)), at)
    return at


def pending(layout: Layout) -> Iterator[tuple[Path, Wanted]]:
    """Yield the requests, each with its file; the job that ingests takes them up.

    A file that is not a request is put aside, so that no job stumbles over it again.
    """
    folder = Path(layout.requests)
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            said = json.loads(path.read_text())
            wanted = Wanted(**{**said, "tables": tuple(said["tables"])})
        except FileNotFoundError:
            continue  # the request was withdrawn
        except (ValueError, TypeError, KeyError):
            path.replace(path.with_suffix(REFUSED))
        else:
            yield path, wanted


def _decide(lake: OpenLake, wanted: Wanted) -> int:
    path = Path(lake.layout.requests, f"{wanted.id}.json")
    asked = False
    try:
        while True:
            with ExitStack() as stack:
                try:
                    stack.enter_context(Lease(lake.layout.lease("ingest"), "bronze"))
                except LeaseHeld:
                    if not asked:
                        _ask(path, wanted)
                        asked = True
                else:
                    return _decide_here(lake, wanted)
            # An incomplete tick was left by a crash: the next writer of bronze completes it.
            at = interventions.tick_of(lake, wanted.id)
            if at is not None and latest_complete_tick(lake) >= at:
                return at
            if path.with_suffix(REFUSED).exists():
                raise StorageError(
                    "the running job could not read the request. Stop it, and start it with this release."
                )
            time.sleep(POLL_SECONDS)
    finally:
        for file in (path, path.with_suffix(REFUSED)):
            file.unlink(missing_ok=True)


def _decide_here(lake: OpenLake, wanted: Wanted) -> int:
    """Record it as the writer of bronze, unless the previous writer has done so already."""
    state = interventions.take_over(lake)
    if (at := interventions.tick_of(lake, wanted.id)) is not None:
        return at
    return interventions.decide(lake, state, wanted).tick


def _ask(path: Path, wanted: Wanted) -> None:
    """Write the file whole or not at all."""
    write_durably(path, json.dumps(asdict(wanted)))


def _bring(opened: OpenTable, at: int) -> None:
    table = opened.table
    alone = App((table,), (), table.stream.sources)
    stands, since = -1, time.monotonic()
    while (tick := opened.lake.progress(opened.visible).tick) < at:
        if tick > stands:
            stands, since = tick, time.monotonic()
        try:
            with Silver(opened.lake, alone, lambda tick, records: None) as silver:
                silver.catch_up(at)
        except LeaseHeld as held:
            if time.monotonic() - since > STANDSTILL_SECONDS:
                raise LeaseHeld(
                    f"table {table.name!r}: the intervention is decided, at tick {at}, but the table has been at "
                    f"tick {tick} for {STANDSTILL_SECONDS:g} s. It takes effect when its job reaches that tick. {held}"
                ) from held
            time.sleep(POLL_SECONDS)
