"""The events of a run: for everything that it does, and for what a watcher sees beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that a run did. Times are seconds since the start.

    "tick" (bronze), "batch" (all tables), "function failed" (a user's function, on records of a batch), "expectation
    unmet" (one that warns, by records of a batch, which a table has taken in, or by rows that it changed), "published",
    "told" (a function that is a sink), "upkeep", "upkeep failed" (the job goes on), "snapshot" (the changes at the time
    `at` are in its topic), "snapshot refused" (a continuous run goes on without it and later ones), "snapshot left out"
    (versions of a Delta table that are gone; a later one has what they changed), "snapshot delayed" (it may be taken in
    at a later look). Details have `took`, the seconds of the work itself. A continuous run also has "lag" (records that
    wait in Kafka), "kafka away", "kafka back", "watch failed" (a `part` of what is watched could not be looked at),
    "rule unmet", "rule met" (a rule about a whole table has ceased to hold, or holds again). "cut off": a batch that
    the signal to stop has ended; the next run does it. "waiting": `readers` wait for the table `upstream` of another
    application, which stands at the event's tick (`is_kept`: whether a process keeps it), or for the schemas of
    `topic`, for a `reason`. "lineage failed": a catalog did not get an event. Details may hold parts of records: a
    printer must escape them.
    """

    kind: str
    tick: int
    records: int
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)


Listen = Callable[[JobEvent], None]


def as_event(event: JobEvent) -> dict[str, Any]:
    """Return an event in the form for programs."""
    return {
        "event": event.kind,
        "tick": event.tick,
        "records": event.records,
        "seconds": round(event.seconds, 3),
        **event.details,
    }
