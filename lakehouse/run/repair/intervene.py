"""Requests for interventions: carried out here if no job runs, else by the jobs that hold bronze and the tables.

The job that ingests gives an intervention its tick, since only this job writes bronze: it takes up the requests, files
below control/requests, between two ticks. The job that keeps a table applies the intervention when it reaches that
tick. So no job stops, and the process that asks waits for the result.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass

from lakehouse.errors import LeaseHeld, StorageError
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import ingest_lease, is_held, request_lease, table_lease
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.run.repair.stages import Intervene
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import InterventionRequest, deciding_person
from lakehouse.spark.history import present_logic
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.silver.upstream_ticks import UpstreamWaiting
from lakehouse.spark.silver.writer import latest_complete_tick

POLL_SECONDS = 0.5
STANDSTILL_SECONDS = 600.0
LEASE_SECONDS = 5.0  # a job holds a request's lease for a moment, when it looks whether it is held
REFUSED = ".refused"


@dataclass(frozen=True, slots=True)
class Why:
    """The reason for an intervention, and who decided it, beside the operating system's user; both are kept with it."""

    reason: str = ""
    by: str | None = None

    def to_request(self, stage: Intervene, id: str | None = None) -> InterventionRequest:
        """Return the intervention to request. id: of the records that were kept for it, if it has any."""
        return InterventionRequest(
            stage.kind,
            stage.tables,
            stage.details,
            self.reason,
            id or uuid.uuid4().hex,
            deciding_person(self.by),
            stage.table_details,
        )


NO_REASON = Why()


def intervene(lake: OpenLake, app: App, request: InterventionRequest) -> int:
    """Decide on an intervention, and bring its tables to it; return its tick.

    Raises StorageError if a killed ingest left a tick half written, or if a running job can't read the request;
    LeaseHeld if another process holds a table and does not reach the tick; PlanError if the lake has a table above
    under another declaration.
    """
    for name in request.tables:
        present_logic.check_declared_above(lake.open(app.table(name)), request.tables)
    decision_tick = _decide_tick(lake, request)
    for name in request.tables:
        bring_table(lake.open(app.table(name)), app, decision_tick)
    return decision_tick


def pending_requests(layout: Layout) -> Iterator[tuple[str, InterventionRequest]]:
    """Yield the requests, each with the path of its note; the job that ingests takes them up.

    A request whose process has died since is removed: nobody may want it any more. It puts aside a file that is not a
    request, so that no job stumbles over it again.
    """
    if not note.are_kept(layout.requests):
        return
    for name in store.file_names(layout.requests):
        if not name.endswith(".json"):
            continue
        path = f"{layout.requests}/{name}"
        content = note.read(path) or {}
        try:
            request = InterventionRequest(**{**content, "tables": tuple(content["tables"])})
        except (TypeError, KeyError):
            note.rename(path, _refusal(path))  # nothing, if the request was withdrawn
            continue
        lease = request_lease(layout, name.removesuffix(".json"))
        if is_held(lease):
            yield path, request
        else:
            note.remove(path)
            lease.remove()


def _refusal(path: str) -> str:
    """Return the note that says that a job could not read a request."""
    return path.removesuffix(".json") + REFUSED


def _decide_tick(lake: OpenLake, request: InterventionRequest) -> int:
    path = f"{lake.layout.requests}/{request.id}.json"
    lease, is_requested = request_lease(lake.layout, request.id), False
    try:
        while True:
            with ExitStack() as stack:
                try:
                    stack.enter_context(ingest_lease(lake.layout))
                except LeaseHeld:
                    if not is_requested and note.are_kept(path):
                        lease.acquire_within(LEASE_SECONDS)  # before the note is there
                        is_requested = True
                        note.write(path, asdict(request))
                else:
                    return _decide_as_writer(lake, request)
            # A crash left an incomplete tick: the next writer of bronze completes it.
            decision_tick = interventions.intervention_tick(lake, request.id)
            if decision_tick is not None and latest_complete_tick(lake) >= decision_tick:
                return decision_tick
            if store.file_exists(_refusal(path)):
                raise StorageError(
                    "the running job could not read the request. Stop it, and start it with this release."
                )
            time.sleep(POLL_SECONDS)
    finally:
        for written_path in (path, _refusal(path)):
            note.remove(written_path)
        if is_requested:
            lease.remove()


def _decide_as_writer(lake: OpenLake, request: InterventionRequest) -> int:
    """Record it as the writer of bronze, unless the previous writer has done so already."""
    state = interventions.take_over_bronze(lake)
    if (decision_tick := interventions.intervention_tick(lake, request.id)) is not None:
        return decision_tick
    return interventions.record_intervention(lake, state, request).tick


def _append_missing_tick(lake: OpenLake, decision_tick: int) -> None:
    """Append the tick of an intervention that a process recorded before it was killed, unless somebody ingests.

    A job that ingests appended it when it took over bronze.
    """
    if latest_complete_tick(lake) < decision_tick:
        with suppress(LeaseHeld), ingest_lease(lake.layout):
            interventions.take_over_bronze(lake)


def _catch_up_with_upstream(silver: Silver, open_table: OpenTable, target_tick: int) -> None:
    """Bring a table to a tick; wait for tables of other applications, and for schemas.

    Raises StorageError for a table that nobody keeps, RegistryUnavailable.
    """
    while True:
        _append_missing_tick(open_table.lake, target_tick)
        silver.catch_up(target_tick)
        if silver.tick >= target_tick:
            return
        for upstream in (item.upstream for item in silver.find_waiting() if isinstance(item, UpstreamWaiting)):
            if not is_held(table_lease(open_table.layout, upstream)):
                raise StorageError(
                    f"table {open_table.name!r}: the intervention is decided, at tick {target_tick}, and takes effect "
                    f"when table {upstream!r} of another application has that tick: no process keeps it. Run that "
                    "application, and then this one."
                )
        silver.check_schemas()
        time.sleep(POLL_SECONDS)


def bring_table(open_table: OpenTable, app: App, target_tick: int) -> None:
    """Bring a table to the tick of an intervention, or wait for the process that keeps it. Raises: see `intervene`."""
    table = open_table.table
    table_app = App((table,), (), table.stream.sources, upstream=app.upstream)
    reached_tick, reached_time = -1, time.monotonic()
    while (tick := open_table.lake.progress(open_table.visible).tick) < target_tick:
        if tick > reached_tick:
            reached_tick, reached_time = tick, time.monotonic()
        try:
            with Silver(open_table.lake, table_app, lambda tick, records: None) as silver:
                _catch_up_with_upstream(silver, open_table, target_tick)
        except LeaseHeld as lease_error:
            if time.monotonic() - reached_time > STANDSTILL_SECONDS:
                raise LeaseHeld(
                    f"table {table.name!r}: the intervention is decided, at tick {target_tick}, but the table has been "
                    f"at tick {tick} for {STANDSTILL_SECONDS:g} s. It takes effect when its job reaches that tick. "
                    f"{lease_error}"
                ) from lease_error
            time.sleep(POLL_SECONDS)
