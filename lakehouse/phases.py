"""The phases of this process, for a person who waits; the code that does the work names them.

A phase costs little if nobody looks: it is an entry in a list. The commands look at the list from a thread of their own
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
    """Work that takes a while.

    kind: the same for the same work; text may tell more. unit: of total and done. expected_seconds: how long the same
    work took before; None if unknown.
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
        """The text, with the counts if there are any."""
        return f"{self.text}: {self.done:,} of {self.total:,} {self.unit}" if self.total else self.text

    def seconds_left(self, now: float) -> float | None:
        """Return how long the phase will still take, at its speed so far, or as expected; None if unknown."""
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
    """Announce a phase until the block ends; yield it, since its text and counts may change.

    Phases may be nested, and several threads may have phases at once. text: the kind if left out.
    """
    entry = Phase(kind, text or kind, total, unit)
    _under_way.append(entry)
    try:
        yield entry
    finally:
        _under_way.remove(entry)
        _last_ended[:] = [time.monotonic()]


def phases_under_way() -> list[list[Phase]]:
    """Return the phases of each thread that has any, the outer ones first; the thread that tells most comes last.

    That is the thread with the newest phase, other than the main thread, which only waits while others work.
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
    """Return the phases of a thread for people, with the seconds that they took and, if known, will still take."""
    text = ", ".join(entry.counted_text for entry in entries)
    seconds_left = next(filter(None, (entry.seconds_left(now) for entry in entries)), None)
    seconds = round(now - entries[-1].began)
    took = f"{seconds:,} s" if seconds else ""
    left_text = "" if seconds_left is None else f"about {seconds_left:,.0f} s more"
    times = ", ".join(filter(None, (took, left_text)))
    return f"{text} ({times})" if times else text
