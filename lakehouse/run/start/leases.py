"""A first check of the leases that a run will need: so it fails at once, not after Spark has started."""

from __future__ import annotations

from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings


def check(settings: Settings, app: App, parts: tuple[str, ...]) -> None:
    """Raise LeaseHeld if another process holds a lease that this run needs. The run itself takes the leases later."""
    layout = Layout(settings.lake.path)
    needed = [("ingest", "bronze")] if "ingest" in parts else []
    if "silver" in parts:
        needed += [(f"silver-{table.name}", f"table {table.name!r}") for table in app.tables]
    for name, what in needed:
        with Lease(layout.lease(name), what):
            pass
