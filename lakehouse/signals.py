"""Handlers for signals that end a loop, which may run in the thread that waits."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from types import FrameType


def event_setter(event: threading.Event) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that sets an event for which the main thread may be waiting.

    Python runs handlers in the main thread, between any two steps: also inside `wait`, where that thread holds the
    event's lock. `set` would then wait for the lock in the only thread that could release it. So another thread sets
    the event.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        _thread.start_new_thread(event.set, ())  # threading.Thread would take locks of its own

    return on_signal
