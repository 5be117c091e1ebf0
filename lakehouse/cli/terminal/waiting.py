"""Shows the phases of a command (`lakehouse.phases`) on stderr, while somebody waits for it.

On a terminal one line, which is written anew and is gone at the end. Elsewhere a line when nothing was said for a
second and a half; what has been said before, or still goes on, is said again after ten seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lakehouse.cli.terminal import show
from lakehouse.phases import describe_phases, phase, phases_under_way, seconds_idle

LOOK_SECONDS = 0.25
SILENCE_SECONDS = 1.5
AGAIN_SECONDS = 10.0
_shown_elsewhere = threading.Event()


class PhaseLines:
    """Prints phases as lines. Called again and again: it prints what is due.

    say: gets a line. begun: by time.monotonic. idle_text: said once, when nothing is under way any more; None: never.
    """

    def __init__(self, say: Callable[[str], None], began: float, idle_text: str | None = None) -> None:
        self._say, self._said_at, self._said_kinds = say, began, set[str]()
        self._idle_text = idle_text

    def __call__(self, now: float) -> None:
        """Say what is under way, if that is due."""
        if now - self._said_at < SILENCE_SECONDS:
            return
        if not (threads := phases_under_way()):
            if self._idle_text is not None and seconds_idle(now) >= SILENCE_SECONDS:
                self._say(self._idle_text)
                self._said_at, self._idle_text = now, None
            return
        entries = threads[-1]
        kind, seconds = entries[-1].kind, now - entries[-1].began
        is_due = seconds >= AGAIN_SECONDS and now - self._said_at >= AGAIN_SECONDS
        if kind not in self._said_kinds or is_due:
            self._said_kinds.add(kind)
            self._said_at = now
            self._say(describe_phases(entries, now))


class PhaseLine:
    """Shows the newest phase in one line of a terminal. Called again and again."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, now: float) -> None:
        """Show what is under way; take the line away if nothing is."""
        threads = phases_under_way()
        text = describe_phases(threads[-1], now) if threads else ""
        if text != self._shown:
            show.rewrite_line(text)
            self._shown = text

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            show.rewrite_line("")


@contextmanager
def show_phases(*, quiet: bool) -> Iterator[None]:
    """Show the phases of a command while it lasts. quiet: it prints for a program, so no phase is shown."""
    if quiet:
        yield
        return
    if show.console(stderr=True).is_terminal:
        line = PhaseLine()
        with call_repeatedly(lambda now: None if _shown_elsewhere.is_set() else line(now)):
            yield
        line.clear()
    else:
        lines = PhaseLines(lambda text: show.say(text, stderr=True), time.monotonic())
        with call_repeatedly(lambda now: None if _shown_elsewhere.is_set() else lines(now)):
            yield


@contextmanager
def show_bronze_reads() -> Iterator[Callable[[int], None]]:
    """Yield a listener: called with the number of bronze's records that were read, it shows it in the phase."""
    with phase("reading bronze") as reading:

        def show_read(records: int) -> None:
            reading.text = f"reading bronze, {records:,} records so far"

        yield show_read


@contextmanager
def let_show_phases(look: Callable[[float], None]) -> Iterator[None]:
    """Let a command show its phases itself. look: called with the time, by time.monotonic, several times a second."""
    _shown_elsewhere.set()
    try:
        with call_repeatedly(look):
            yield
    finally:
        _shown_elsewhere.clear()


@contextmanager
def call_repeatedly(look: Callable[[float], None]) -> Iterator[None]:
    """Call a function with the time until the block ends, in a thread of its own."""
    end = threading.Event()

    def repeat() -> None:
        while not end.wait(LOOK_SECONDS):
            with suppress(OSError):  # nobody reads stderr any more
                look(time.monotonic())

    thread = threading.Thread(target=repeat, name="phases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
