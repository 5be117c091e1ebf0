"""A signal that comes while the main thread is inside `Event.wait`, with the event's lock, ends what it is to end."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, threading
from lakehouse.signals import event_setter
from lakehouse.cli.start.run_signals import RunSignals

def signalled(stop):
    with stop._cond:  # where `wait` is before it sleeps, and after
        os.kill(os.getpid(), signal.SIGTERM)
    print(stop.wait(20))
"""
WAYS = {
    "a handler of its own": "stop = threading.Event(); signal.signal(15, event_setter(stop)); signalled(stop)",
    "a continuous job": "\nwith RunSignals() as signals, signals.stopping() as stop: signalled(stop)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_inside_wait_sets_the_event(way: str) -> None:
    process = subprocess.run([sys.executable, "-c", SCRIPT + WAYS[way]], capture_output=True, text=True, timeout=40)
    assert (process.stdout, process.returncode) == ("True\n", 0), process.stderr


ENDING = """
import os, signal, time
from lakehouse.cli.start import run_signals

def signal_this_process():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)  # the handler runs

run_signals.STOP_SECONDS = run_signals.LAST_SECONDS = {stop_seconds}
run_signals.claim_process()
try:
    with run_signals.RunSignals() as signals:
        try:
            with signals.{block}:
                {body}
        finally:
            signal_this_process()
            print("released")
except ValueError as error:
    signal_this_process()
    print(error)
{end}
os._exit(2)  # as the command does
"""


@pytest.mark.parametrize("block", ["ending_by_fault()", "stopping()"])
def test_a_run_that_a_fault_is_ending_prints_its_line_whatever_signals_come(block: str) -> None:
    script = ENDING.format(block=block, body='raise ValueError("the fault")', end="", stop_seconds=8)
    process = subprocess.run([sys.executable, "-u", "-c", script], capture_output=True, text=True, timeout=40)
    assert (process.stdout, process.returncode) == ("released\nthe fault\n", 2), process.stderr


def test_a_signal_unwinds_a_run_that_nothing_else_is_ending() -> None:
    script = ENDING.format(block="ending_by_fault()", body="signal_this_process()", end="", stop_seconds=8)
    process = subprocess.run([sys.executable, "-u", "-c", script], capture_output=True, text=True, timeout=40)
    assert (process.stdout, process.returncode) == ("released\n", 143), process.stderr


def test_a_process_that_does_not_end_after_its_run_is_ended() -> None:
    script = ENDING.format(
        block="ending_by_fault()", body='raise ValueError("the fault")', end="time.sleep(60)", stop_seconds=0.2
    )
    process = subprocess.run([sys.executable, "-u", "-c", script], capture_output=True, text=True, timeout=40)
    assert (process.stdout, process.returncode) == ("released\nthe fault\n", 143), process.stderr
