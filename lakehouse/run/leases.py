"""A first look at the leases that a run will need: to say at once what would be said after Spark has started."""

from __future__ import annotations

from lakehouse.config import Settings
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.plan.app import App


def check(settings: Settings, app: App, parts: tuple[str, ...]) -> None:
    """Raise LeaseHeld when another process holds what this run would write. The run takes the leases itself, later."""
    layout = Layout(settings.lake.path)
    needed = [("ingest", "bronze")] if "ingest" in parts else []
    if "silver" in parts:
        needed += [(f"silver-{table.name}", f"table {table.name!r}") for table in app.tables]
    for name, what in needed:
        with Lease(layout.lease(name), what):
            pass
