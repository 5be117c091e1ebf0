"""What a process says that it does: by its threads, with counts, and how long it will take."""

from __future__ import annotations

import threading
import time

from lakehouse.phases import Phase, describe_phases, phase, phases_under_way, seconds_idle


def texts() -> list[list[str]]:
    return [[entry.counted_text for entry in entries] for entries in phases_under_way()]


def test_phases_lie_in_each_other_and_end() -> None:
    with phase("building", total=2_000, unit="records") as building:
        building.done = 1_500
        with phase("tables", "tables to tick 7"):
            assert texts() == [["building: 1,500 of 2,000 records", "tables to tick 7"]]
            assert seconds_idle(time.monotonic() + 5) == 0
        assert texts() == [["building: 1,500 of 2,000 records"]]
    assert texts() == []
    assert 4 < seconds_idle(time.monotonic() + 5) < 6


def test_a_phase_that_fails_has_ended() -> None:
    try:
        with phase("writing"):
            raise ValueError
    except ValueError:
        assert phases_under_way() == []


def test_the_thread_that_tells_most_is_the_last() -> None:
    begun, end = threading.Event(), threading.Event()

    @phase("records")
    def work() -> None:
        begun.set()
        end.wait(10)

    with phase("waiting"):
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(10)
        assert texts() == [["waiting"], ["records"]]
        with phase("asking"):
            assert texts() == [["waiting", "asking"], ["records"]], "the main thread waits for others"
        end.set()
        thread.join()
        assert texts() == [["waiting"]]


def test_how_long_it_will_take_is_said_once_something_tells() -> None:
    def after(seconds: float, done: int) -> str:
        entry = Phase("building", "building", 300, "records", done, began=100.0)
        return describe_phases([entry, Phase("writing", "writing", began=100.0 + seconds - 1)], 100.0 + seconds)

    assert after(1, 100) == "building: 100 of 300 records, writing (1 s)"
    assert after(10, 0) == "building: 0 of 300 records, writing (1 s)"
    assert after(10, 100) == "building: 100 of 300 records, writing (1 s, about 20 s more)"
    assert after(10, 300) == "building: 300 of 300 records, writing (1 s)"
    entry = Phase("tables", "tables", expected_seconds=15.0, began=100.0)
    assert describe_phases([entry], 110.0) == "tables (10 s, about 5 s more)"
    assert describe_phases([entry], 120.0) == "tables (20 s)"
    assert after(10, 301) == "building: 301 of 300 records, writing (1 s)", "a count may be an estimate"
