"""A signal that comes while the main thread is inside `Event.wait`, with the event's lock, ends what it is to end."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, threading
from lakehouse.signals import event_setter
from lakehouse.cli.start.job import _stopped_by_signals

def signalled(stop):
    with stop._cond:  # where `wait` is before it sleeps, and after
        os.kill(os.getpid(), signal.SIGTERM)
    print(stop.wait(20))
"""
WAYS = {
    "a handler of its own": "stop = threading.Event(); signal.signal(15, event_setter(stop)); signalled(stop)",
    "a continuous job": "\nwith _stopped_by_signals() as (stop, _): signalled(stop)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_inside_wait_sets_the_event(way: str) -> None:
    process = subprocess.run([sys.executable, "-c", SCRIPT + WAYS[way]], capture_output=True, text=True, timeout=40)
    assert (process.stdout, process.returncode) == ("True\n", 0), process.stderr
