"""Windows as they are declared: sizes, graces, the grace where none is given (rule 16), and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.windows import DeclaredWindow
from lakehouse.semantics.time.window import DAY_MS, Hopping, Session, Sliding, Window

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("declared", "window"),
    [
        (lh.tumbling("1 hour", grace="10 minutes"), Hopping(HOUR, HOUR, 600_000)),
        (lh.hopping("1 hour", "10 minutes", grace="0 minutes"), Hopping(HOUR, 600_000, 0)),
        (lh.sliding("1 hour", grace="1 second"), Sliding(HOUR, 1_000)),
        (lh.session("1 hour", grace="1 second"), Session(HOUR, 1_000)),
    ],
)
def test_a_declared_grace_is_kept(declared: DeclaredWindow, window: Window) -> None:
    assert declared.resolve_window(final=False) == declared.resolve_window(final=True) == window


@pytest.mark.parametrize("declared", [lh.tumbling("1 hour"), lh.hopping("1 hour", "1 minute"), lh.sliding("1 hour"),
                                      lh.session("1 hour")])  # fmt: skip
def test_the_default_grace_is_the_rest_of_a_day_and_nothing_for_final_results(declared: DeclaredWindow) -> None:
    assert declared.resolve_window(final=False).grace == DAY_MS - HOUR
    assert declared.resolve_window(final=True).grace == 0


def test_a_window_longer_than_a_day_has_no_grace() -> None:
    assert lh.tumbling("25 hours").resolve_window(final=False).grace == 0


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: lh.tumbling("0 hours"), "tumbling: size='0 hours' is 0 ms; expected at least 1 ms"),
        (lambda: lh.tumbling("an hour"), "tumbling: size='an hour': expected a duration"),
        (lambda: lh.tumbling("1 hour", grace="soon"), "grace='soon': expected a duration"),
        (lambda: lh.hopping("1 hour", "0 hours"), "hopping: advance='0 hours' is 0 ms"),
        (lambda: lh.hopping("1 hour", "2 hours"), "Expected an advance no longer than the size"),
        (lambda: lh.hopping("1 day", "1 millisecond"), "a record would count in 86,400,000 windows, a row each"),
        (lambda: lh.tumbling("1 hour", grace="521775 weeks"), "grace='521775 weeks' is longer than the years"),
        (lambda: lh.session("999999999999999 weeks"), "is longer than the years 1 to 9999"),
        (lambda: lh.sliding("0 hours"), "sliding: difference='0 hours' is 0 ms"),
        (lambda: lh.session("never"), "session: gap='never': expected a duration"),
    ],
)  # fmt: skip
def test_refused(declare: Callable[[], DeclaredWindow], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        declare()
