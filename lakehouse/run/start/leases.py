"""A first look at the leases that a run will need: to say at once what would be said after Spark has started."""

from __future__ import annotations

from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings


def check(settings: Settings, app: App, parts: tuple[str, ...]) -> None:
    """Raise LeaseHeld when another process holds what this run would write. The run takes the leases itself, later."""
    layout = Layout(settings.lake.path)
    needed = [("ingest", "bronze")] if "ingest" in parts else []
    if "silver" in parts:
        needed += [(f"silver-{table.name}", f"table {table.name!r}") for table in app.tables]
    for name, what in needed:
        with Lease(layout.lease(name), what):
            pass
