"""Applications about keys, for scenario files beside this one: what is a null key, and what one key."""

from __future__ import annotations

import lakehouse as lh

# JSON keys of one column stand alone or in an object.
ids = lh.stream("ids", key="id bigint", key_format="json", schema="v int")
json_keys = lh.app(
    ids.latest("ids_now").changes().to_topic("ids-now"),
    ids.group_by("id").agg(n=lh.count()).table("ids_count"),
    ids.rekey("v").group_by("id").agg(n=lh.count()).table("ids_beside"),
    ids.to_topic("ids-again"),
)
words = lh.stream("words", key="id string", key_format="json", schema="v int")
days = lh.stream("days", key="at timestamp", key_format="json", schema="v int")
points = lh.stream("points", key="at struct<x: int, y: int>", schema="v int")
many_json_keys = lh.app(
    words.latest("words_now"),
    days.latest("days_now"),
    points.latest("points_now"),
    points.group_by("at").agg(n=lh.count()).table("points_count"),
)

# Of a line with one field, nothing is null; a key of several columns is null if all of them are.
fields = lh.stream("fields", key="id int", key_format="csv", schema="v int")
pairs = lh.stream("both", key="a string, b int", key_format="csv", schema="v int")
csv_keys = lh.app(fields.latest("fields_now"), pairs.latest("both_now"), pairs.to_topic("both-again"))

# Re-keyed, a null value has no columns: a default makes no key of it.
noted = lh.stream("noted", key="id string", schema="n int, label string")
rekeyed_with_defaults = lh.app(
    noted.rekey("coalesce(label, 'none') AS label_or_none").latest("by_label"),
    noted.rekey("CASE WHEN n > 5 THEN 'big' ELSE 'small' END AS size").to_topic("by-size"),
    noted.rekey("upper(id) AS shout", "coalesce(n, 0) AS number").to_topic("by-both"),
    noted.rekey("coalesce(id, 'x') AS known").to_topic("by-key"),
    noted.rekey("label").rekey("id").to_topic("and-back"),
    noted.rekey("rowtime AS at").to_topic("by-time"),
    noted.latest("noted_now").to_stream().rekey("coalesce(n, 0) AS number").to_topic("changes-by-number"),
)

# The two zeros of a float are one key, and all its NaN; texts that look alike are two.
floats = lh.stream("floats", key="k float", key_format="csv", schema="v int")
floats_now = floats.latest("floats_now")
doubles = lh.stream("doubles", key="k double", schema="x double, p struct<x: double, y: float>, xs array<double>")
doubles_now = doubles.latest("doubles_now")
zeros = lh.app(
    floats_now.changes().to_topic("floats-now"),
    floats.group_by("k").agg(n=lh.count(), last=lh.latest("v")).table("floats_count"),
    floats_now.group_by("k").agg(n=lh.count()).table("floats_rows"),
    doubles_now.changes().to_topic("doubles-now"),
    doubles.group_by("x").agg(n=lh.count()).table("by_x"),
    doubles.rekey("0 - x AS z").to_topic("doubles-rekeyed"),
    doubles.group_by("p").agg(n=lh.count()).table("by_p"),
    doubles.group_by("xs").agg(n=lh.collect_list("x")).table("by_xs"),
    doubles.select("x").join(doubles_now, on="x", prefix="found_").to_topic("found"),
    doubles.select("x").join(doubles_now, on="x", prefix="found_", broadcast=True).to_topic("found-everywhere"),
    doubles.rekey("x").join(doubles.rekey("x AS other"), within="1 second", prefix="r_").select("k").to_topic("met"),
    doubles_now.join(doubles_now, on="x", prefix="other_").table("referring"),
)
texts = lh.app(lh.stream("texts", key="k string", schema="v int").latest("texts_now"))

# A number orders no null value; with tombstones="newest" it deletes all the same.
versions = lh.stream("versions", key="id string", schema="v bigint, at timestamp")
versions_now = versions.latest("versions_now", order_by="v", tombstones="newest")
newest_deletes = lh.app(
    versions_now.changes().to_topic("versions-now"),
    versions.latest("versions_quiet", order_by="v", tombstones="newest", suppress=True).changes().to_topic("quiet"),
    versions_now.group_by("v % 2 AS parity").agg(n=lh.count(), total=lh.sum("v")).table("versions_counted"),
    versions.latest("versions_by_order", order_by="v"),
)
timed_deletes = lh.app(
    versions.latest("by_time", order_by="at", tombstones="newest", retention="1 hour").changes().to_topic("by-time"),
    versions.latest("by_own_time", order_by="at", retention="1 hour").changes().to_topic("by-own-time"),
)

lists = lh.stream("lists", key="ks array<array<string>>", schema="v int")
lists_now = lists.latest("lists_now")
list_keys = lh.app(
    lists_now, lists_now.filter("v > 0").select("size(ks) AS n", "ks[0][1] AS first").table("lists_more"),
    lists.group_by("ks").agg(n=lh.count()).table("lists_count"),
    lists_now.to_stream().group_by("ks[0] AS k").agg(n=lh.count()).table("lists_inner"),
)  # fmt: skip
