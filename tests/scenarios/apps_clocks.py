"""Applications whose windows stand behind joins: which stream time closes them."""

from __future__ import annotations

import lakehouse as lh

left = lh.stream("left", key="id string", schema="a bigint, at bigint", event_time="at")
right = lh.stream("right", key="id string", schema="b bigint, at bigint", event_time="at")
windows = lh.tumbling("10 milliseconds", grace="0 milliseconds")

joined = left.join(right, within="3 milliseconds", grace="0 milliseconds", prefix="right_")
rekeyed = joined.rekey("a % 2 AS parity")
newest = joined.latest("newest")
left_table, right_table = left.latest("left_table"), right.latest("right_table")
both = left_table.join(right_table, prefix="right_").table("both")
referring = left_table.join(right_table, on="id", prefix="right_").table("referring")


def _final(stream, name):
    return stream.window(windows).agg(n=lh.count()).table(name, emit="final")


behind = lh.app(
    _final(joined.group_by("id"), "final_joined"),
    _final(rekeyed.group_by("parity"), "final_rekeyed"),
    _final(newest.to_stream().group_by("id"), "final_changes"),
    _final(both.to_stream().group_by("id"), "final_rows"),
    _final(referring.to_stream().group_by("id"), "final_referring"),
    joined.group_by("id").window(windows).agg(n=lh.count()).table("gone", retention="20 milliseconds"),
)

counted = lh.app(joined.group_by("id").agg(n=lh.count()).table("pairs"))
sides = left.join(right, within="3 milliseconds", grace="0 milliseconds", how="outer", prefix="right_")
padded = lh.app(sides.select("a", "right_b").latest("sides"))
windowed = lh.app(joined.group_by("id").window(windows).agg(n=lh.count()).table("in_windows"))
