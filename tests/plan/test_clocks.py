"""Which topics move one clock together."""

from __future__ import annotations

import pytest

import lakehouse as lh
from lakehouse.plan.lineage.clocks import placing_topics, shared_clocks
from lakehouse.plan.stream import Stream

A, B, C = (lh.stream(name, key="k string", schema="n bigint") for name in "abc")
NOW_A, NOW_B = A.latest("now_a"), B.latest("now_b")
AB = A.join(B, within="1 second", prefix="b_")


@pytest.mark.parametrize(
    ("stream", "shared"),
    [
        (A, ""),
        (A.merge(B), ""),  # each keeps its own time
        (A.join(NOW_B, prefix="b_"), ""),  # a table that is looked up gives no record
        (NOW_A.to_stream(), ""),
        (A.join(A, within="1 second", prefix="again_"), ""),  # one topic
        (AB, "ab"),
        (AB.rekey("n AS other"), "ab"),
        (AB.latest("joined").to_stream(), "ab"),
        (AB.join(C, within="1 second", prefix="c_"), "abc"),
        (AB.join(C.latest("now_c"), prefix="c_"), "ab"),
        (NOW_A.join(NOW_B, prefix="b_").table("both").to_stream(), "ab"),
        (NOW_A.join(NOW_B, on="k", prefix="b_").table("referring").to_stream(), "ab"),
    ],
)
def test_topics_that_meet_in_a_join_have_one_clock(stream: Stream, shared: str) -> None:
    assert shared_clocks(stream) == dict.fromkeys(shared, tuple(shared))


def test_a_lookup_gives_no_places() -> None:
    assert placing_topics(AB.join(C.latest("now_c"), prefix="c_")) == {"a", "b"}
    assert placing_topics(A.merge(C)) == {"a", "c"}
