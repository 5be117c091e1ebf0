"""The applications of the scenarios about values: numbers, moments and texts that not every type can hold."""

from __future__ import annotations

import pyarrow as pa

import lakehouse as lh

numbers = lh.stream(
    "numbers",
    key="id string",
    schema="n int, l bigint, d double, m decimal(6, 2), xs array<bigint>, ms array<decimal(6, 2)>, "
    "st struct<n: smallint, m: decimal(38, 0)>, text string",
)
read = lh.app(numbers.to_topic("read"))
flat = lh.app(lh.stream("flat", key="id string", schema="n bigint, m decimal(6, 2), text string").to_topic("read"))

wide = lh.stream("wide", key="id string", schema="i int, l bigint, d double, m decimal(38, 18), t string, at timestamp")
cast = lh.app(
    wide.cast(i="smallint", l="int", d="int", m="bigint", t="decimal(5, 2)", at="int").to_topic("narrow"),
    wide.select(
        "cast(l AS tinyint) AS l", "cast(coalesce(d, 0) AS bigint) AS d", "cast(m AS int) AS m", "cast(t AS int) AS t",
        "cast(array(l, 7L) AS array<smallint>) AS ls", "cast(l AS timestamp) AS at",
    ).to_topic("selected"),
)  # fmt: skip

moments = lh.stream("moments", key="id string", schema="at timestamp, on date, text string")
nested = lh.stream("nested", key="id string", schema="ats array<timestamp>, st struct<on: date>, text string")
times = lh.app(moments.latest("now"), nested.latest("nested_now"))
lines = lh.stream("lines", key="id string", schema="at timestamp, on date", format="csv")
times_of_lines = lh.app(lines.latest("now"))

documents = lh.stream(
    "documents", key="id string", schema="data string, texts array<string>, m map<string, string>, d double"
)
kept = lh.app(
    documents.select("data", "get_json_object(data, '$.amount') AS amount").to_topic("data"),
    documents.select("texts", "m", "d").to_topic("nested"),
)

readings = lh.stream("readings", key="id string", schema="at timestamp, v string")
newest = lh.app(readings.latest("newest", order_by="at"))
recent = lh.app(readings.latest("recent", order_by="at", retention="5 milliseconds"))

words = lh.stream("words", key="id string", schema="w string, m map<string, int>")


repeated = lh.stream(
    "repeated", key="id string", schema="m map<string, int>, deep array<struct<m: map<string, map<string, double>>>>"
)
maps_with_a_name_twice = lh.app(
    repeated.select("deep", keys="map_keys(m)", found="m['a']", entries="map_values(m)").latest("entries_of_maps")
)

lists = lh.stream("lists", key="id string", schema="m map<string, int>, xs array<int>")
never_null = lh.app(
    lists.select(
        a="array(map_keys(m))", b="array(named_struct('x', 1, 'y', array('p')))", c="map('k', array(1))",
        d="transform(xs, x -> named_struct('n', 1, 'x', x))", e="named_struct('n', 1)",
    ).latest("made"),
    lists.group_by("array(array('g')) AS g").agg(ks=lh.collect_list("map_keys(m)"), n=lh.count()).table("collected"),
)  # fmt: skip


def halved(text: str) -> str:
    return text + ("\udc00" if "!" in text else "")


def shouted(ws: pa.Array) -> pa.Array:
    return [None if w is None else halved(w) for w in ws.to_pylist()]  # type: ignore[return-value]


own = lh.aggregate(
    "w", zero="", add=lambda state, w: state + (w or ""), accumulator="string", result=halved, returns="string"
)
kept_half = lh.aggregate("w", zero="", add=lambda state, w: halved(state + (w or "")), accumulator="string")
halves = lh.app(
    words.group_by("id")
    .agg(n=lh.count(), own=own, kept=kept_half, joined=lh.reduce("w", lambda a, b: halved(a + b)))
    .table("halves"),
    words.map("loud", shouted, "w", type="string").select("loud", "m", half="'\ud83d'").to_topic("loud"),
)
