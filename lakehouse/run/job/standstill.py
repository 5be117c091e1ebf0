"""Notices what stands still while something of an application waits for it: others' tables, and schemas."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from lakehouse.lake.control.writer_leases import is_held, table_lease
from lakehouse.lake.layout import Layout
from lakehouse.spark.silver.schema_ticks import SchemaWaiting
from lakehouse.spark.silver.upstream_ticks import UpstreamWaiting


class Standstill:
    """Remembers since when each table, or topic's schemas, stand at their tick, so that each is reported once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._since: dict[UpstreamWaiting | SchemaWaiting, float] = {}  # by the clock of time.monotonic
        self._told: set[UpstreamWaiting | SchemaWaiting] = set()

    def look(
        self, waiting: Sequence[UpstreamWaiting | SchemaWaiting], patience_seconds: float
    ) -> Iterator[dict[str, Any]]:
        """Yield, as the details of an event, what has waited so long and was not told."""
        now = time.monotonic()
        self._since = {item: self._since.get(item, now) for item in waiting}
        self._told &= self._since.keys()
        for item, since in self._since.items():
            if item not in self._told and now - since >= patience_seconds:
                self._told.add(item)
                yield self._details(item)

    def _details(self, item: UpstreamWaiting | SchemaWaiting) -> dict[str, Any]:
        readers = {"tick": item.tick, "readers": list(item.readers)}
        if isinstance(item, SchemaWaiting):
            return {"topic": item.topic, "reason": item.reason, **readers}
        is_kept = is_held(table_lease(self._layout, item.upstream))
        return {"upstream": item.upstream, "is_kept": is_kept, **readers}
