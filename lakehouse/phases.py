"""The phases of this process, for a person who waits; the code that does the work names them.

Nobody need listen: a phase is two entries in a list. The commands look at the list from a thread of their own
(`lakehouse.cli.terminal.waiting`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

ESTIMATE_AFTER_SECONDS = 2.0


@dataclass(eq=False)
class Phase:
    """Something that takes a while.

    kind: the same each time it is done; text may tell more. unit: what is counted. expected_seconds: how long it will
    take, by what the same took before; None if nothing tells.
    """

    kind: str
    text: str
    total: int = 0
    unit: str = ""
    done: int = 0
    expected_seconds: float | None = None
    began: float = field(default_factory=time.monotonic)
    thread: int = field(default_factory=threading.get_ident)

    @property
    def counted_text(self) -> str:
        """The text, with how much of it is done, if that is counted."""
        return f"{self.text}: {self.done:,} of {self.total:,} {self.unit}" if self.total else self.text

    def seconds_left(self, now: float) -> float | None:
        """Return how long it will still take, if it goes on as it went, or as expected; None if nothing tells."""
        seconds = now - self.began
        if seconds < ESTIMATE_AFTER_SECONDS:
            return None
        if 0 < self.done <= self.total:
            return seconds * (self.total - self.done) / self.done
        return None if self.expected_seconds is None else max(0.0, self.expected_seconds - seconds)


_under_way: list[Phase] = []
_last_ended: list[float] = []


@contextmanager
def phase(kind: str, text: str = "", *, total: int = 0, unit: str = "") -> Iterator[Phase]:
    """Say that something is being done, until the block ends; give the phase, whose text and counts may change.

    Phases may lie in each other, and go on in several threads at once. text: the kind if left out.
    """
    entry = Phase(kind, text or kind, total, unit)
    _under_way.append(entry)
    try:
        yield entry
    finally:
        _under_way.remove(entry)
        _last_ended[:] = [time.monotonic()]


def phases_under_way() -> list[list[Phase]]:
    """Return the phases of each thread that has any, the outer ones first; the thread that tells most last.

    That is the one with the newest phase, but for the main thread: it waits for the others, if there are any.
    """
    by_thread: dict[int, list[Phase]] = {}
    for entry in list(_under_way):
        by_thread.setdefault(entry.thread, []).append(entry)
    main = threading.main_thread().ident
    return sorted(by_thread.values(), key=lambda entries: (entries[-1].thread != main, entries[-1].began))


def seconds_idle(now: float) -> float:
    """Return for how long nothing has been under way: 0.0 while something is, and before the first phase."""
    return 0.0 if _under_way or not _last_ended else now - _last_ended[0]


def describe_phases(entries: Sequence[Phase], now: float) -> str:
    """Return what one thread does, for people: all of it, for how long, and how long it will take if that is known."""
    text = ", ".join(entry.counted_text for entry in entries)
    seconds_left = next(filter(None, (entry.seconds_left(now) for entry in entries)), None)
    seconds = round(now - entries[-1].began)
    took = f"{seconds:,} s" if seconds else ""
    left = "" if seconds_left is None else f"about {seconds_left:,.0f} s more"
    times = ", ".join(filter(None, (took, left)))
    return f"{text} ({times})" if times else text
