"""The leases of bronze, tables, published topics and functions, which have one writer; and of quarantines, in turns."""

from __future__ import annotations

from lakehouse.errors import LeaseHeld
from lakehouse.lake import store
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.store_lease import find_holders
from lakehouse.lake.layout import Layout

INGEST = "ingest"
LABELS = {
    "silver": "table",
    "sink": "topic",
    "function": "function",
    "stream": "the quarantine of stream",
    "schemas": "the schemas of topic",
}
HELD_FOR_A_COMMIT = ("stream", "schemas")


def ingest_lease(layout: Layout) -> Lease:
    """Return the lease of bronze; the process that ingests holds it for as long as it runs."""
    return Lease(layout.lease(INGEST), "bronze")


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


def schemas_lease(layout: Layout, topic: str) -> Lease:
    """Return the lease of the schemas of a topic's writers; who writes holds it for as long as a file takes."""
    return lease_of(layout, f"schemas-{topic}")


def erasure_lease(layout: Layout) -> Lease:
    """Return the lease of erasing records; a replay, which keeps bytes of records, holds it as well."""
    return Lease(layout.lease("erasure"), f"what an erasure in {layout.root} deletes")


def request_lease(layout: Layout, id: str) -> Lease:
    """Return the lease of a request for an intervention; who asks holds it while the answer is awaited."""
    return Lease(layout.lease(f"request-{id}"), "a request for an intervention")


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


def kept_by_holder(layout: Layout) -> dict[str, list[str]]:
    """Return what each running process keeps, such as "table planes", by its name, id and start.

    Of a lake on a store other than S3 nothing is known. Raises StorageError if S3 does not answer.
    """
    if store.has_leases(layout.root):
        holders_by_name = find_holders(layout.leases)
    elif store.is_remote(layout.root):
        return {}
    else:
        names = [file_name.removesuffix(".lock") for file_name in store.file_names(layout.leases)]
        holders = {name: Lease(layout.lease(name), name).holder() for name in names}
        holders_by_name = {name: holder for name, holder in holders.items() if holder is not None}
    kept_subjects: dict[str, list[str]] = {}
    for name, holder in sorted(holders_by_name.items()):
        kind, _, subject = name.partition("-")
        if name == INGEST:
            kept_subjects.setdefault(holder, []).append("bronze")
        elif kind in LABELS and kind not in HELD_FOR_A_COMMIT:
            kept_subjects.setdefault(holder, []).append(f"{LABELS[kind]} {subject}")
    return kept_subjects
