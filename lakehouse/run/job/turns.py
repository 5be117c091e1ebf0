"""Lets ingest and the tables take turns where they share few cores.

A tick and a batch each plan, compile and wait for most of their time. On two cores, side by side, ingest begins the
next tick at once, and a batch of the tables takes three times as long. So a tick waits until the tables have the tick
before it; not for long, because a batch of much data may take minutes.
"""

from __future__ import annotations

import threading

from lakehouse.spark.jvm.session.session import FEW_CORES

LONGEST = 5.0  # seconds


class Turns:
    """Lets ingest wait for the tables after each tick. `cores`: with more than a few, or None, nobody waits."""

    def __init__(self, cores: int | None) -> None:
        self._few = cores is not None and cores <= FEW_CORES
        self._reached = 0
        self._ended = False
        self._changed = threading.Condition()

    def note_tick(self, tick: int) -> None:
        """Note that the tables have a tick."""
        with self._changed:
            self._reached = max(self._reached, tick)
            self._changed.notify_all()

    def end(self) -> None:
        """Let nobody wait any longer, because the job ends."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, tick: int) -> None:
        """Wait until the tables have a tick, but at most `LONGEST` seconds."""
        if self._few:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._reached >= tick, LONGEST)
