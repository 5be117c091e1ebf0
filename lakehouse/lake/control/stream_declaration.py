"""The declaration of a stream in the processes that write to its quarantine: all of them need the same one.

Several processes, and several applications, may read a stream of one name at once. Its quarantine has each bad record
once, whichever process comes to it first: so they have to agree on which records are bad.

    control/streams/<stream>.json   {"declaration": ..., "leases": those of the tables, topics and functions behind it,
                                    "topic": ..., "format": of its values, "fields": those that are declared,
                                    "expectations": the condition of each, by name}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import LeaseHeld
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import lease_of
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App, input_stream
from lakehouse.plan.origin import Source


@dataclass(frozen=True, slots=True)
class DeclaredFields:
    """The fields that a stream declares. format: of its values. fields: of keys and values, as the topic names them.

    expectations: their conditions, by name.
    """

    topic: str
    format: str
    fields: frozenset[str]
    expectations: Mapping[str, str]


def check_stream(layout: Layout, app: App, source: Source) -> None:
    """Raise LeaseHeld while another process reads the stream under another declaration."""
    _compare(layout, app, source, note.read(layout.stream_declaration(source.name)))


def declare_stream(layout: Layout, app: App, source: Source) -> None:
    """Note a stream's declaration; the caller holds the stream's lease. Raises LeaseHeld as `check_stream` does."""
    path = layout.stream_declaration(source.name)
    written_note = note.read(path)
    fresh_note = _compare(layout, app, source, written_note)
    if fresh_note != written_note:
        note.write(path, fresh_note)


def read_declared_fields(layout: Layout, stream: str) -> DeclaredFields | None:
    """Return the fields that the last process has declared for a stream; None if that is not known."""
    written_note = note.read(layout.stream_declaration(stream))
    if written_note is None or "fields" not in written_note:
        return None
    return DeclaredFields(
        written_note["topic"],
        written_note["format"],
        frozenset(written_note["fields"]),
        written_note.get("expectations", {}),
    )


def _compare(layout: Layout, app: App, source: Source, written_note: dict[str, Any] | None) -> dict[str, Any]:
    """Return the note that an application's declaration of a stream makes of the written one. Raises LeaseHeld."""
    declaration, lease_names = _digest(source), set(_lease_names(app, source))
    if written_note is not None and written_note["declaration"] != declaration:
        for name in set(written_note["leases"]) - lease_names:
            _check_lease(layout, name, source)
    elif written_note is not None:
        lease_names |= set(written_note["leases"])
    fields = {column.in_topic.name for column in (*source.key, *source.value)}
    return {
        "declaration": declaration,
        "leases": sorted(lease_names),
        "topic": source.topic,
        "format": source.value_format,
        "fields": sorted(fields),
        "expectations": {item.name: str(item.condition) for item in source.expectations},
    }


def _check_lease(layout: Layout, name: str, source: Source) -> None:
    try:
        lease_of(layout, name).check()
    except LeaseHeld as error:
        raise LeaseHeld(
            f"stream {source.name!r} is declared otherwise in a process that runs: {error} Both would write to one "
            "quarantine, and do not agree on which records are bad. Give one of the streams another name, "
            "stream(..., name=...); or let both declare the same."
        ) from error


def _lease_names(app: App, source: Source) -> Iterator[str]:
    """Yield the names of the leases of everything in an application that a stream's records reach."""
    yield from (f"silver-{table.name}" for table in app.tables if source in input_stream(table).sources)
    yield from (f"sink-{sink.topic}" for sink in app.sinks if source in input_stream(sink).sources)
    yield from (f"function-{function.name}" for function in app.functions if source in input_stream(function).sources)


def _digest(source: Source) -> str:
    all_columns = {column.name.lower() for column in (*source.key, *source.value)} | {source.headers.lower()}
    return hashlib.sha256(json.dumps(source.fingerprint(all_columns, keyed=True), sort_keys=True).encode()).hexdigest()
