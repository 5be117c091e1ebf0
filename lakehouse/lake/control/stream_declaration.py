"""The declaration of a stream in the processes that write to its quarantine: all of them need the same one.

Several processes, and several applications, may read a stream of one name at once. Its quarantine has each bad record
once, whichever process comes to it first: so they have to agree on which records are bad.

    control/streams/<stream>.json   {"declaration": ..., "leases": those of the tables, topics and functions behind it}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from lakehouse.errors import LeaseHeld
from lakehouse.lake.control import note
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App, sources_of
from lakehouse.plan.origin import Source

LABELS = {"silver": "table", "sink": "topic", "function": "function"}


def sink_lease(layout: Layout, topic: str) -> Lease:
    """Return the lease of publishing to a topic."""
    return Lease(layout.lease(f"sink-{topic}"), f"topic {topic!r}")


def check_stream(layout: Layout, app: App, source: Source) -> None:
    """Raise LeaseHeld while another process reads the stream under another declaration."""
    written_note = note.read(layout.stream_declaration(source.name)) or {}
    if written_note.get("declaration", _digest(source)) != _digest(source):
        own_leases = set(_lease_names(app, source))
        for name in written_note["leases"]:
            if name not in own_leases:
                _check_lease(layout, name, source)


def declare_stream(layout: Layout, app: App, source: Source) -> None:
    """Note a stream's declaration; the caller holds the stream's lease. Raises LeaseHeld as `check_stream` does."""
    check_stream(layout, app, source)
    path = layout.stream_declaration(source.name)
    written_note = note.read(path) or {}
    is_same = written_note.get("declaration") == _digest(source)
    leases = {*(written_note["leases"] if is_same else ()), *_lease_names(app, source)}
    fresh_note = {"declaration": _digest(source), "leases": sorted(leases)}
    if fresh_note != written_note:
        note.write(path, fresh_note)


def _check_lease(layout: Layout, name: str, source: Source) -> None:
    kind, _, subject = name.partition("-")
    label = f"{LABELS[kind]} {subject!r}"
    try:
        Lease(layout.lease(name), label).check()
    except LeaseHeld as error:
        raise LeaseHeld(
            f"stream {source.name!r} is declared otherwise in a process that runs: {error} Both would write to one "
            "quarantine, and do not agree on which records are bad. Give one of the streams another name, "
            "stream(..., name=...); or let both declare the same."
        ) from error


def _lease_names(app: App, source: Source) -> Iterator[str]:
    """Yield the names of the leases of everything in an application that a stream's records reach."""
    yield from (f"silver-{table.name}" for table in app.tables if source in sources_of(table))
    yield from (f"sink-{sink.topic}" for sink in app.sinks if source in sources_of(sink))
    yield from (f"function-{function.name}" for function in app.functions if source in sources_of(function))


def _digest(source: Source) -> str:
    all_columns = {column.name.lower() for column in (*source.key, *source.value)} | {source.headers.lower()}
    return hashlib.sha256(json.dumps(source.fingerprint(all_columns, keyed=True), sort_keys=True).encode()).hexdigest()
