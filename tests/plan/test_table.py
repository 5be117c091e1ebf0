"""Tables: windows, having, options; what they hold, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.operator import Expire
from lakehouse.plan.table import Table
from lakehouse.semantics.time.window import Hopping

orders = lh.stream("orders", key="id string", schema="n bigint, at timestamp, day date, word string")
by_id = orders.group_by("id")
windowed = by_id.window(lh.tumbling("1 hour", grace="10 minutes")).agg(n=lh.count())
sessions = by_id.window(lh.session("1 hour", grace="10 minutes")).agg(n=lh.count())
slid = by_id.window(lh.sliding("1 hour", grace="10 minutes")).agg(n=lh.count())


def test_the_key_of_a_windowed_table_ends_with_its_window() -> None:
    assert windowed.table("t").key == ("id", "window_start", "window_end")
    assert by_id.agg(n=lh.count()).table("t").key == ("id",)


def test_final_results_without_a_grace_wait_for_none() -> None:
    made = by_id.window(lh.tumbling("1 hour")).agg(n=lh.count())
    assert made.table("t", emit="final").fold.window == Hopping(3_600_000, 3_600_000, 0)
    assert made.table("t").fold.window == Hopping(3_600_000, 3_600_000, 23 * 3_600_000)


def test_which_tables_need_a_clock_and_a_state_of_their_own() -> None:
    def needs(table: Table) -> tuple[bool, bool]:
        return table.has_clock, table.has_state

    assert needs(orders.latest("t")) == (False, False)
    assert needs(windowed.table("t")) == (True, False)
    assert needs(windowed.table("t", emit="final")) == (True, True)
    assert needs(windowed.having("n > 1").table("t")) == (True, True)
    assert needs(orders.latest("t", order_by="n")) == (False, True)
    assert needs(orders.latest("t", order_by="at", retention="1 day")) == (True, True)


def test_having_sees_the_group_the_window_and_the_aggregates() -> None:
    windowed.having("id <> 'x' AND n > 1 AND window_start < window_end")
    with pytest.raises(PlanError, match=r"'word', which does not exist\. There are: id, window_start, window_end, n"):
        windowed.having("word = 'x'")


def test_retention_is_as_long_as_a_window_is_needed() -> None:
    # A grace of 10 minutes; a session's gap and a sliding window's difference, an hour, count twice.
    for made, least in ((windowed, 10), (sessions, 130), (slid, 130)):
        assert made.table("t", retention=f"{least} minutes").find(Expire) == Expire(least * 60_000)
        with pytest.raises(PlanError, match=f"is needed until {least * 60_000} ms after its end"):
            made.table("t", retention=f"{least - 1} minutes 59 seconds 999 milliseconds")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: by_id.window("1 hour"), r'is not a window. Write lh.tumbling\("1 hour", grace="10 minutes"\)'),
        (lambda: orders.group_by("n AS window_end").window(lh.tumbling("1 hour")), "are the same name, since"),
        (lambda: by_id.window(lh.tumbling("1 hour")).agg(window_start=lh.min("n")), "are the same name, since"),
        (lambda: by_id.window(lh.session("1 hour")).agg(a=lh.aggregate("n", zero=0, add=max, accumulator="bigint")),
         r"has no merge, and two sessions .* Give it merge=function\(earlier, later\)"),
        (lambda: windowed.table("t", emit="last"), 'emit=\'last\'; expected "changes" or "final"'),
        (lambda: by_id.agg(n=lh.count()).table("t", emit="final"), "emit needs a window"),
        (lambda: by_id.agg(n=lh.count()).table("t", retention="1 day"), "retention needs a window"),
        (lambda: by_id.agg(n=lh.count()).table("t", idle="1 day"), "idle needs a window"),
        (lambda: windowed.table("t", idle="1 minute"), 'is about final results; add emit="final"'),
        (lambda: windowed.table("t", emit="final", idle="0 minutes"), "idle='0 minutes' is 0 ms; expected at least"),
        (lambda: windowed.table("t", retention="9 minutes"), "is 540000 ms, but a window is needed until 600000 ms"),
        (lambda: orders.latest("t", order_by="word"), "order_by=word is a string; expected a timestamp, or a number"),
        (lambda: orders.latest("t", order_by="day"), "order_by=day is a date"),
        (lambda: orders.latest("t", order_by="nowhere"), "'nowhere', which does not exist"),
        (lambda: orders.latest("t", retention="1 day"), "retention='1 day' is for order_by; add order_by"),
        (lambda: orders.latest("t", tombstones="newest"), "tombstones='newest' is for order_by; add order_by"),
        (lambda: orders.latest("t", order_by="n", tombstones="last"), "expected 'by order' or 'newest'"),
        (lambda: orders.latest("t", order_by="n", retention="1 day"), "is a time, but order_by=n is a bigint"),
        (lambda: orders.latest("t", order_by="at", retention="0 days"), "expected at least 1 ms"),
        (lambda: by_id.agg(n=lh.count()).having("rowtime > 0"),
         "having: 'rowtime > 0' reads rowtime, which belongs to a record. Expected a condition of the row: id, n"),
        (lambda: orders.latest("t").expect("x", "rowoffset > 0"), "expect 'x': 'rowoffset > 0' reads rowoffset, which"),
    ],
)  # fmt: skip
def test_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        declare()


def test_a_plan_as_text_says_every_option() -> None:
    table = sessions.having("n > 1").table("t", emit="final", idle="1 second", retention="3 hours", suppress=True)
    assert lh.describe(table).splitlines()[:8] == [
        "TABLE t (key id, window_start, window_end)",
        "  count(*) AS n",
        "  GROUP BY id",
        "  WINDOW SESSION (GAP 3600000 MS, GRACE 600000 MS)",
        "  HAVING n > 1",
        "  EMIT FINAL (IDLE 1000 MS)",
        "  RETENTION 10800000 MS",
        "  SUPPRESS unchanged",
    ]
    ordered = orders.latest("t", order_by="at", retention="1 day")
    assert "  latest value per key by at; a null value deletes" in lh.describe(ordered)


def test_an_order_by_a_number_warns_that_a_null_value_deletes_nothing() -> None:
    by_number, newest = orders.latest("t", order_by="n"), orders.latest("u", order_by="n", tombstones="newest")
    app = lh.app(by_number, newest, orders.latest("v", order_by="at"), orders.latest("w", order_by="rowtime"))
    (warning,) = app.warnings
    assert warning.startswith("table 't': order_by=n: a null value has no such number")
    assert 'tombstones="newest"' in warning
    assert "by n; a null value has no order: it is late, and deletes nothing" in lh.describe(by_number)
    assert "by n; a null value deletes, whatever came before it" in lh.describe(newest)


def test_declarations_with_windows_are_values() -> None:
    assert windowed.table("t") == windowed.table("t")
    assert windowed.table("t") != windowed.table("t", suppress=True)
    assert hash(windowed.table("t"))
