"""Stream time by partition, and the watermark over all of them."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.time.clock import Clock

OBSERVED = st.lists(st.tuples(st.sampled_from("pqr"), st.integers(-20, 50), st.integers(0, 5)), max_size=20)


def test_stream_time_is_the_largest_so_far_the_current_record_included() -> None:
    # event time     10  30  20  40
    # stream time    10  30  30  40
    clock = Clock()
    assert [clock.observe("p", time, 0) for time in (10, 30, 20, 40)] == [10, 30, 30, 40]


def test_each_partition_has_its_own_stream_time_and_the_slowest_is_the_watermark() -> None:
    clock = Clock()
    assert [clock.observe("p", 30, 0), clock.observe("q", 5, 0), clock.observe("q", 7, 0)] == [30, 5, 7]
    assert clock.watermark == 30  # q came later, and the watermark never goes back
    clock.observe("q", 40, 0)
    assert clock.watermark == 30
    clock.observe("p", 35, 0)
    assert clock.watermark == 35


def test_an_idle_partition_is_left_out_until_it_comes_back() -> None:
    clock = Clock(idle_ms=100)
    clock.observe("p", 1, 0)
    clock.observe("q", 50, 100)
    assert clock.watermark == 1  # exactly as old as allowed
    clock.observe("q", 51, 101)
    assert clock.watermark == 51
    clock.observe("p", 20, 102)
    assert clock.watermark == 51
    clock.observe("q", 60, 103)
    assert clock.watermark == 51  # p is back, at 20


@given(OBSERVED, st.none() | st.integers(0, 10))
def test_time_never_goes_back(observed: list[tuple[str, int, int]], idle: int | None) -> None:
    clock = Clock(idle)
    marks = []
    times: dict[str, list[int]] = {}
    order_times = accumulate(step for _, _, step in observed)
    for (partition, time, _), order_time in zip(observed, order_times, strict=True):
        times.setdefault(partition, []).append(clock.observe(partition, time, order_time))
        assert clock.watermark is not None
        marks.append(clock.watermark)
    for series in (marks, *times.values()):
        assert all(before <= after for before, after in pairwise(series))


@given(OBSERVED)
def test_without_idle_the_watermark_is_the_slowest_partition_seen_from_the_start(
    observed: list[tuple[str, int, int]],
) -> None:
    clock = Clock()
    for partition in "pqr":
        clock.observe(partition, -100, 0)
    for partition, time, _ in observed:
        clock.observe(partition, time, 0)
    largest = [max([-100, *(time for name, time, _ in observed if name == partition)]) for partition in "pqr"]
    assert clock.watermark == min(largest)


def test_a_recreated_topic_begins_a_new_time_and_the_old_one_holds_nothing_back() -> None:
    #   t/one   100           gone
    #   t/two         5   9   its own time
    clock = Clock()
    clock.observe("t/one/0", 100, 0)
    clock.observe("other/x/0", 400, 0)
    assert [clock.observe("t/two/0", 5, 1), clock.observe("t/two/0", 300, 2)] == [5, 300]
    assert clock.stream_times == {"other/x/0": 400, "t/two/0": 300}
    assert clock.watermark == 300, "the smallest of what is there, and it never went back"
