"""The applications of the scenarios about windows, grace, final results and retention."""

from __future__ import annotations

import lakehouse as lh
from lakehouse.plan.windows import DeclaredWindow

# Event time is the record's own timestamp: enough for one partition, whose records may be out of order.
clicks = lh.stream("clicks", key="user string", schema="n bigint")
# Event time is a column: partitions can differ in event time and still be in the order of their timestamps.
visits = lh.stream("visits", key="user string", schema="at bigint, n bigint", event_time="at")


def ms(number: int) -> str:
    return f"{number} milliseconds"


def counted(window: DeclaredWindow, name: str, stream: lh.Stream = clicks, **options: str) -> lh.App:
    """An application with one table: count and sum of each user's records by window."""
    rows = stream.group_by("user").window(window).agg(records=lh.count(), total=lh.sum("n"))
    return lh.app(rows.table(name, **options))  # type: ignore[arg-type]


# One of each kind, in small numbers that show a record's windows and the limits of lateness (rule 14).
tumbling = counted(lh.tumbling(ms(10), grace=ms(5)), "tumbled")
tumbling_at_once = counted(lh.tumbling(ms(10), grace=ms(0)), "tumbled")
hopping = counted(lh.hopping(ms(10), ms(5), grace=ms(5)), "hopped")
hopping_uneven = counted(lh.hopping(ms(10), ms(4), grace=ms(5)), "hopped")
hopping_by_column = counted(lh.hopping(ms(10), ms(5)), "hopped", visits)
sliding = counted(lh.sliding(ms(10), grace=ms(5)), "slid")
session = counted(lh.session(ms(5), grace=ms(10)), "sessions")

# Without a grace (rule 16).
tumbling_hour = counted(lh.tumbling("1 hour"), "hours")
hopping_hour = counted(lh.hopping("1 hour", "30 minutes"), "hours")
sliding_hour = counted(lh.sliding("1 hour"), "hours")
session_hour = counted(lh.session("1 hour"), "hours")
tumbling_long = counted(lh.tumbling("25 hours"), "long")

# Final results.
tumbling_final = counted(lh.tumbling(ms(10)), "finals", emit="final")
tumbling_final_grace = counted(lh.tumbling(ms(10), grace=ms(5)), "finals", emit="final")
tumbling_final_visits = counted(lh.tumbling(ms(10)), "finals", visits, emit="final")
tumbling_final_idle = counted(lh.tumbling(ms(10)), "finals", visits, emit="final", idle=ms(100))
hopping_final = counted(lh.hopping(ms(10), ms(5)), "finals", emit="final")
sliding_final = counted(lh.sliding(ms(10)), "finals", emit="final")
session_final = counted(lh.session(ms(5)), "finals", emit="final")
session_final_visits = counted(lh.session(ms(5)), "finals", visits, emit="final")

# Several partitions, each with its own stream time.
tumbling_visits = counted(lh.tumbling(ms(10), grace=ms(5)), "tumbled", visits)

# Which records reach the operator, and how they are grouped.
positive = clicks.filter("n > 0")
tumbling_filtered = counted(lh.tumbling(ms(10), grace=ms(0)), "tumbled", positive)
tumbling_by_two = lh.app(
    clicks.group_by("user", "n % 2 AS parity").window(lh.tumbling(ms(10), grace=ms(0))).agg(records=lh.count())
    .table("pairs").changes().to_topic("pairs-changelog")
)  # fmt: skip
people = lh.stream("people", key="id string", schema="who struct<first: string, last: string>")
tumbling_by_struct = lh.app(
    people.group_by("who").window(lh.tumbling(ms(10))).agg(records=lh.count()).table("names", emit="final")
)

# Having, suppress and retention over windows.
_by_user = clicks.group_by("user").window(lh.tumbling(ms(10), grace=ms(5)))
_summed = _by_user.agg(records=lh.count(), total=lh.sum("n"))
tumbling_having = lh.app(_summed.having("total > 10").table("rich"))
tumbling_final_having = lh.app(_summed.having("records > 1").table("busy", emit="final"))
session_having = lh.app(
    clicks.group_by("user").window(lh.session(ms(5), grace=ms(10))).agg(records=lh.count()).having("records > 1")
    .table("busy")
)  # fmt: skip
tumbling_suppressed = lh.app(_by_user.agg(top=lh.max("n")).table("tops", suppress=True))
tumbling_kept = counted(lh.tumbling(ms(10), grace=ms(5)), "kept", retention=ms(20))
tumbling_kept_visits = counted(lh.tumbling(ms(10), grace=ms(5)), "kept", visits, retention=ms(20))
tumbling_final_kept = counted(lh.tumbling(ms(10)), "kept", emit="final", retention=ms(20))
session_kept = counted(lh.session(ms(5), grace=ms(0)), "kept", retention=ms(10))
sliding_kept = counted(lh.sliding(ms(10), grace=ms(0)), "kept", retention=ms(20))

# Two sessions that become one: which value was the latest, the earliest, the largest?
session_aggregates = lh.app(
    clicks.group_by("user")
    .window(lh.session(ms(5), grace=ms(10)))
    .agg(
        records=lh.count(),
        total=lh.sum("n"),
        mean=lh.avg("n"),
        least=lh.min("n"),
        most=lh.max("n"),
        newest=lh.latest("n"),
        oldest=lh.earliest("n"),
        spread=lh.stddev("n"),
        listed=lh.collect_list("n"),
        known=lh.collect_set("n"),
        kinds=lh.count_distinct("n"),
        top=lh.top_k("n", 2),
        times=lh.histogram("cast(n AS string)"),
        product=lh.reduce("n", lambda so_far, n: so_far * n),
        halves=lh.aggregate(
            "n", zero=0, add=lambda sum, n: sum + (n or 0), merge=lambda a, b: a + b, result=lambda sum: sum / 2,
            accumulator="bigint", returns="double",
        ),
    )
    .table("merged")
)  # fmt: skip


def advance_past_the_size() -> lh.App:
    return counted(lh.hopping(ms(10), ms(11)), "lost")


def size_without_a_unit() -> lh.App:
    return counted(lh.tumbling("10"), "nothing")


def session_without_a_merge() -> lh.App:
    made = clicks.group_by("user").window(lh.session(ms(5)))
    return lh.app(made.agg(n=lh.aggregate("n", zero=0, add=lambda a, n: a + n, accumulator="bigint")).table("never"))


def final_without_a_window() -> lh.App:
    return lh.app(clicks.group_by("user").agg(n=lh.count()).table("never", emit="final"))


def idle_without_final() -> lh.App:
    return counted(lh.tumbling(ms(10)), "never", idle=ms(10))


def retention_shorter_than_the_grace() -> lh.App:
    return counted(lh.tumbling(ms(10), grace=ms(5)), "never", retention=ms(4))


def group_named_like_the_window() -> lh.App:
    made = clicks.group_by("user AS window_start").window(lh.tumbling(ms(10)))
    return lh.app(made.agg(n=lh.count()).table("never"))
