"""The leases of tables, published topics and functions, which have one writer, and of quarantines, written in turns."""

from __future__ import annotations

from lakehouse.errors import LeaseHeld
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout

LABELS = {"silver": "table", "sink": "topic", "function": "function", "stream": "the quarantine of stream"}


def table_lease(layout: Layout, table: str) -> Lease:
    """Return the lease of a table; its writer holds it for as long as it runs."""
    return lease_of(layout, f"silver-{table}")


def sink_lease(layout: Layout, topic: str) -> Lease:
    """Return the lease of publishing to a topic."""
    return lease_of(layout, f"sink-{topic}")


def function_lease(layout: Layout, function: str) -> Lease:
    """Return the lease of calling a function with the records of a stream."""
    return lease_of(layout, f"function-{function}")


def quarantine_lease(layout: Layout, stream: str) -> Lease:
    """Return the lease of a stream's quarantine; who writes holds it for one commit."""
    return lease_of(layout, f"stream-{stream}")


def is_held(lease: Lease) -> bool:
    """Say whether another process holds a lease."""
    try:
        lease.check()
    except LeaseHeld:
        return True
    return False


def lease_of(layout: Layout, name: str) -> Lease:
    """Return one of the leases of this module by its name, such as "silver-totals"."""
    kind, _, subject = name.partition("-")
    return Lease(layout.lease(name), f"{LABELS[kind]} {subject!r}")
