"""What no replay of quarantined records can do, told before anything is tried."""

from __future__ import annotations

import lakehouse as lh
from lakehouse.run.repair.fixes import replay_refusal

SCHEMA = "amount int, at bigint"


def test_a_plan_says_what_a_replay_refuses() -> None:
    """One decision: what `--plan` shows beside the records that fit is the error of `--replay`."""
    orders, paid, other = (lh.stream(topic, key="id string", schema=SCHEMA) for topic in ("orders", "paid", "other"))
    joined = orders.join(paid, before="1 hour", after="1 hour", grace="1 hour", prefix="paid_")
    counted = joined.group_by("id").agg(n=lh.count()).table("both")
    of = lh.app(counted, orders.latest("newest"), other.latest("others"))
    for source in orders.sources + paid.sources:
        assert "is joined with another stream, for table 'both'" in (replay_refusal(of, source) or "")
    assert replay_refusal(of, other.sources[0]) is None
    kept = lh.app(orders.latest("newest"), joined.to_topic("pairs"))
    assert "for topic 'pairs'" in (replay_refusal(kept, orders.sources[0]) or "")
    assert "no table of the application reads stream 'orders'" in (
        replay_refusal(lh.app(other.latest("others")), orders.sources[0]) or ""
    )
