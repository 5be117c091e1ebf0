"""A first check of the leases that a run will need, so that it fails at once, not after Spark has started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.stream_declaration import check_stream
from lakehouse.lake.control.writer_leases import function_lease, ingest_lease, sink_lease, table_lease
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings


def repair_lease(layout: Layout, table: str) -> Lease:
    """Return the lease of a backfill or a revert of a table: not the job's lease, since the job goes on."""
    return Lease(layout.lease(f"backfill-{table}"), f"table {table!r}, by a backfill or a revert,")


@contextmanager
def repair_leases(layout: Layout, tables: Iterable[str]) -> Iterator[None]:
    """Hold the leases of repairs of several tables. Raises LeaseHeld."""
    with ExitStack() as leases:
        for table in sorted(tables):
            leases.enter_context(repair_lease(layout, table))
        yield


def check_repair(layout: Layout, table: str) -> None:
    """Raise LeaseHeld if another backfill or revert of a table is under way."""
    repair_lease(layout, table).check()


def check_leases(settings: Settings, app: App, parts: tuple[str, ...] | None) -> None:
    """Raise LeaseHeld if another process holds a lease that this run needs. The run itself takes the leases later.

    parts: the parts that will run; None for all.
    """
    layout = Layout(settings.lake.path)
    if parts is None or "ingest" in parts:
        ingest_lease(layout).check()
    if parts is None or "silver" in parts:
        for table in app.tables:
            table_lease(layout, table.name).check()
        for sink in app.sinks:
            sink_lease(layout, sink.topic).check()
        for function in app.functions:
            function_lease(layout, function.name).check()
        for source in app.sources:
            check_stream(layout, app, source)
