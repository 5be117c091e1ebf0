"""Notices tables of other applications that stand still while something of this application waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from lakehouse.lake.control.writer_leases import is_held, table_lease
from lakehouse.lake.layout import Layout
from lakehouse.spark.silver.upstream_ticks import Waiting


class Standstill:
    """Remembers since when each table stands at its tick, so that each standstill is told once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._since: dict[Waiting, float] = {}  # by the clock of time.monotonic
        self._told: set[Waiting] = set()

    def look(self, waiting: list[Waiting], patience_seconds: float) -> Iterator[tuple[Waiting, bool]]:
        """Yield what has waited so long and was not told, and whether a process keeps the table that it waits for."""
        now = time.monotonic()
        self._since = {item: self._since.get(item, now) for item in waiting}
        self._told &= self._since.keys()
        for item, since in self._since.items():
            if item not in self._told and now - since >= patience_seconds:
                self._told.add(item)
                yield item, is_held(table_lease(self._layout, item.upstream))
