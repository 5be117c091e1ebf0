"""The leases of bronze, tables, published topics and functions, which have one writer; and of quarantines, in turns."""

from __future__ import annotations

from lakehouse.errors import LeaseHeld
from lakehouse.lake import store
from lakehouse.lake.control.lease import Lease
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
    """Return what each running process keeps, such as "table planes", by its name, id and start; of a local lake."""
    if store.is_remote(layout.root):
        return {}
    labels_by_name = {INGEST: "bronze"}
    for file_name in store.file_names(layout.leases):
        name = file_name.removesuffix(".lock")
        kind, _, subject = name.partition("-")
        if kind in LABELS and kind not in HELD_FOR_A_COMMIT:
            labels_by_name[name] = f"{LABELS[kind]} {subject}"
    kept_subjects: dict[str, list[str]] = {}
    for name, label in sorted(labels_by_name.items()):
        if (holder := Lease(layout.lease(name), label).holder()) is not None:
            kept_subjects.setdefault(holder, []).append(label)
    return kept_subjects
