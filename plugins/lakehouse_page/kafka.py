"""The number of records that wait in Kafka: asked once at a time for each application, however many pages are open."""

import asyncio
import time

from lakehouse.page import command
from lakehouse.page.applications import Application
from lakehouse_page import settings

FRESH_SECONDS = 10.0
lag_requests: dict[str, tuple[float, asyncio.Task]] = {}


async def recent_lag(app: Application) -> dict:
    """Return Kafka's answer, or the one from a few seconds ago; requests during a running one get the same answer.

    Raises as `command.ask_lag` does.
    """
    asked_at, task = lag_requests.get(app.name, (0.0, None))
    if task is None or (task.done() and time.monotonic() - asked_at > FRESH_SECONDS):
        task = asyncio.create_task(command.ask_lag(settings.project_python(), app))
        lag_requests[app.name] = (time.monotonic(), task)
    return await asyncio.shield(task)  # a page that is closed does not take the answer from the others
