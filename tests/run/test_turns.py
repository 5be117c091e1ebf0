"""Ingest and the tables take turns on few cores: a tick waits for the tables, not for long, and not when it can't."""

from __future__ import annotations

import threading

import pytest

from lakehouse.run.job import turns
from lakehouse.run.job.turns import Turns
from lakehouse.spark.jvm.session.session import FEW_CORES


def waiting(one: Turns, tick: int) -> threading.Thread:
    thread = threading.Thread(target=one.wait_for, args=(tick,), daemon=True)
    thread.start()
    return thread


def test_a_tick_waits_until_the_tables_have_it() -> None:
    one = Turns(FEW_CORES)
    one.note_tick(1)
    thread = waiting(one, 2)
    thread.join(0.05)
    assert thread.is_alive()
    one.note_tick(1)  # an older batch changes nothing
    thread.join(0.05)
    assert thread.is_alive()
    one.note_tick(3)
    thread.join(2)
    assert not thread.is_alive()
    waited = waiting(one, 2)
    waited.join(2)
    assert not waited.is_alive()


def test_the_end_of_the_job_lets_a_tick_go() -> None:
    one = Turns(FEW_CORES)
    thread = waiting(one, 1)
    one.end()
    thread.join(2)
    assert not thread.is_alive()


def test_a_long_batch_holds_no_tick_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONGEST", 0.01)
    thread = waiting(Turns(FEW_CORES), 1)
    thread.join(2)
    assert not thread.is_alive()


@pytest.mark.parametrize("cores", [FEW_CORES + 1, None])
def test_with_more_cores_nobody_waits(cores: int | None) -> None:
    thread = waiting(Turns(cores), 1)
    thread.join(2)
    assert not thread.is_alive()
