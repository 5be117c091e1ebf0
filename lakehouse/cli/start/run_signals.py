"""The effect of SIGTERM and Ctrl-C on a run, from its start to the end of its process."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from lakehouse.signals import event_setter

# From a signal on; then what is under way is cut off, so that a command has ended ten seconds after it.
STOP_SECONDS = 8.0
# From then on; a process that is lakehouse's own, and still there, is ended as it stands.
LAST_SECONDS = 15.0
_owns_process = [False]


class RunSignals:
    """The handlers of a run, as a context.

    A signal unwinds the run, so that it releases leases, and a broker of its own; inside `stopping` it sets an event
    instead. A run that is ending already, by a fault or a signal, goes on doing so; only a second Ctrl-C ends it at
    once. In any case Java is ended some seconds later, unless the run is over by then: all that waits for it goes on
    with an error. Nothing is lost, as with any kill.
    """

    def __init__(self) -> None:
        self.is_cut_off = False
        self._signals = list[int]()
        self._settled_signals = 0  # those whose work is over: they cut nothing off
        self._stop_event: threading.Event | None = None
        self._is_ending = False
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> RunSignals:
        if threading.current_thread() is threading.main_thread():  # elsewhere the owner of the process decides
            self._previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
            self.set_handlers()
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settled_signals = len(self._signals)
        for number, handler in self._previous_handlers.items():
            signal.signal(number, _on_late_signal if _owns_process[0] and number == signal.SIGTERM else handler)
        if self.is_cut_off and isinstance(error, Exception):
            sys.exit(128 + self._signals[0])

    def set_handlers(self) -> None:
        """Set the handlers, also again: pyspark sets its own for Ctrl-C."""
        for number in self._previous_handlers:
            signal.signal(number, self._on_signal)

    @contextmanager
    def ending_by_fault(self) -> Iterator[None]:
        """Let an error of the block end the run as it would without a signal."""
        try:
            yield
        except Exception:
            self._is_ending = True
            raise

    @contextmanager
    def stopping(self) -> Iterator[threading.Event]:
        """Give an event that signals set; a second Ctrl-C ends the process at once."""
        self._stop_event = threading.Event()
        try:
            yield self._stop_event
        finally:
            self._is_ending = True
            self._settled_signals = len(self._signals)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)
        # A handler must take no locks: `threading.Timer` would.
        _thread.start_new_thread(self._cut_off_later, (number, len(self._signals)))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._is_ending:
            return
        if self._stop_event is None:
            self._is_ending = True
            sys.exit(128 + number)
        event_setter(self._stop_event)(number, frame)

    def _cut_off_later(self, number: int, signal_count: int) -> None:
        time.sleep(STOP_SECONDS)
        if signal_count > self._settled_signals:
            self.is_cut_off = True
            _end_at_last(number)


def claim_process() -> None:
    """Say that this process is lakehouse's own, and ends with its run.

    Once the run's handlers are gone, SIGTERM then does not cut the process off, but bounds the time that it has left:
    it prints its last line, and stops Java and a broker.
    """
    _owns_process[0] = True


def _on_late_signal(number: int, frame: FrameType | None) -> None:
    _thread.start_new_thread(_end_late, (number,))


def _end_late(number: int) -> None:
    time.sleep(STOP_SECONDS)
    _end_at_last(number)


def _end_at_last(number: int) -> None:
    """End Java, and a process that does not end by that."""
    from lakehouse.spark.jvm.session.launch import kill_java

    kill_java()
    if _owns_process[0]:
        time.sleep(LAST_SECONDS)
        os._exit(128 + number)
