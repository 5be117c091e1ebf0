"""A place for a silver writer's bad records, in tests whose records are all good."""

from __future__ import annotations

from lakehouse.lake.layout import Layout
from lakehouse.plan.origin import Source


class NoneBad:
    """Fails the test at the first bad record."""

    stops_run = False  # no expectation of these tests stops a run

    def write(self, source: Source, to: int, cache: object = None) -> None:
        raise AssertionError(f"stream {source.name!r} has a bad record up to tick {to}")

    def swap_in(self, source: Source, built: Layout, to: int) -> None:
        raise AssertionError(f"the quarantine of stream {source.name!r} is swapped at tick {to}")
