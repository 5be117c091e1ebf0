"""The applications of the scenarios about stateless steps: explode, merge, branch, rename, cast, drop, map."""

from __future__ import annotations

import pyarrow as pa

import lakehouse as lh

baskets = lh.stream(
    "baskets",
    key="id string",
    schema="items array<string>, n bigint, lines array<struct<sku: string, n: bigint>>, grid array<array<int>>",
)
items = baskets.explode("items", "item").select("item", "n")
exploded = lh.app(items.to_topic("items"), items.group_by("item").agg(n=lh.count()).table("sold"))
exploded_latest = lh.app(items.rekey("item").select("n").latest("last_n"))
exploded_structs = lh.app(
    baskets.explode("lines", "line").select("line.sku AS sku", "cast(line.n AS bigint) AS n")
    .group_by("sku").agg(total=lh.sum("n")).table("pieces")
)  # fmt: skip
exploded_twice = lh.app(baskets.explode("grid", "line").explode("line", "cell").select("cell").to_topic("cells"))
cubes = lh.stream("cubes", key="id string", schema="cube array<array<array<array<bigint>>>>")
cells = cubes.explode("cube", "a").explode("a", "b").explode("b", "c").explode("c", "cell").rekey("cell % 2 AS odd")
pairs = cells.merge(cells.filter("cell > 2")).select("cell")
exploded_four_times = lh.app(
    pairs.to_topic("cells"), pairs.latest("last_cell"),
    pairs.group_by("odd").agg(cells=lh.collect_list("cell")).table("listed"),
)  # fmt: skip
exploded_windows = lh.app(
    items.group_by("item").window(lh.tumbling("10 milliseconds", grace="0 milliseconds")).agg(n=lh.count())
    .table("sold")
)  # fmt: skip

visits = lh.stream("visits", key="id string", schema="at bigint, day timestamp, n bigint")
retimed = lh.app(
    visits.retime("at").to_topic("by_number"), visits.retime("day").to_topic("by_time"),
    visits.retime("at").select("n", "rowtime AS t").latest("last_time"),
    visits.retime("at").select("n").latest("newest", order_by="rowtime"),
)  # fmt: skip
timely = visits.retime("at").merge(visits.filter("n > 1").retime("at + 1"))
retimed_windows = lh.app(
    timely.group_by("id").window(lh.tumbling("10 milliseconds", grace="0 milliseconds")).agg(n=lh.count())
    .table("per_window")
)  # fmt: skip
retimed_changes = lh.app(visits.latest("seen").to_stream().retime("at").to_topic("seen_at"))


def retimes_by_text() -> lh.App:
    return lh.app(visits.retime("cast(n AS string)").latest("never"))


trains = lh.stream("trains", key="id string", schema="city string, n bigint")
boats = lh.stream("boats", key="id string", schema="city string, n bigint")
both = trains.merge(boats)
merged = lh.app(both.to_topic("arrivals"), both.latest("place"), both.group_by("city").agg(n=lh.count()).table("stops"))
merged_fitted = lh.app(
    trains.select("city").merge(lh.stream("old", key="id string", schema="town string").rename(town="city"))
    .latest("place")
)  # fmt: skip
merged_rekeyed = lh.app(both.select("city", "n + 1 AS n").rekey("city").latest("last"))
merged_with_itself = lh.app(trains.filter("n > 0").merge(trains.filter("n > 10")).to_topic("twice"))
merged_windows = lh.app(
    both.group_by("city").window(lh.tumbling("10 milliseconds", grace="0 milliseconds")).agg(n=lh.count())
    .table("stops")
)  # fmt: skip
_parts = lh.stream("crates", key="id string", schema="items array<string>")
merged_exploded = lh.app(
    baskets.select("items").explode("items", "item").select("item").merge(
        _parts.explode("items", "item").select("item")
    ).to_topic("items")
)  # fmt: skip

big, middle, rest = trains.branch("n > 10", "n > 5")
branched = lh.app(big.to_topic("big"), middle.to_topic("middle"), rest.to_topic("rest"))

texts = lh.stream("texts", key="id string", schema="a string, b string, c string")
renamed = lh.app(texts.rename(a="first", c="last").to_topic("renamed"))
cast = lh.app(texts.cast(a="int", b="bigint", c="double").to_topic("cast"))
dropped = lh.app(texts.drop("a", "c").to_topic("dropped"))
replaced = lh.app(texts.with_columns(b="upper(a)", d="concat(a, '!')").to_topic("replaced"))

people = lh.stream(
    "people",
    key="id string",
    schema="who struct<first: string, home: struct<city: string>>, tags array<string>, marks map<string, int>",
)
nested_latest = lh.app(people.latest("people_now"))
nested_read = lh.app(
    people.filter("who.home.city = 'Paris' OR who.first IS NULL")
    .select("who.first AS first", "who.home AS home", "struct(who.first AS name, 1 AS one) AS made")
    .to_topic("read")
)

# The headers of a record: its trace, the last one if there are several.
traced = lh.stream("traced", key="id string", schema="n bigint", headers="headers")
trace = "try_element_at(filter(headers, header -> header.key = 'trace'), -1).value"
traces = lh.app(traced.select("n", "headers", trace=trace).to_topic("traces"), traced.latest("traced_now"))


def half(numbers: pa.Array) -> pa.Array:
    """Half of even numbers; an odd one is an error."""
    halves = []
    for number in numbers.to_pylist():
        if number is not None and number % 2:
            raise ValueError(f"{number} is odd")
        halves.append(None if number is None else number // 2)
    return pa.array(halves, type=pa.int64())


def joined(cities: pa.Array, numbers: pa.Array) -> pa.Array:
    return pa.array([f"{c}/{n}" for c, n in zip(cities.to_pylist(), numbers.to_pylist(), strict=True)])


mapped = lh.app(trains.map("half", half, "n", type="bigint").to_topic("halves"))
mapped_twice = lh.app(
    trains.map("n", half, "n", type="bigint").map("label", joined, "upper(city)", "n + 1", type="string")
    .group_by("label").agg(n=lh.count(), total=lh.sum("n")).table("labels")
)  # fmt: skip


def explodes_text() -> lh.App:
    return lh.app(baskets.explode("n", "item").latest("never"))


customers = lh.debezium(
    "shop.customers",
    key="id int",
    schema="name string, amount decimal(10, 2), made timestamp",
    decimals="precise",
    times={"made": "micros"},
)


def a_database_s_table() -> lh.App:
    return lh.app(customers.latest("customers"))


customers_in_avro = lh.debezium(
    "shop.avro-customers", key="id int", schema="name string, amount decimal(10, 2), made timestamp", format="avro",
    max_ahead="1 day", truncates="apply",
)  # fmt: skip
rows_of_connect = lh.stream(
    "jdbc-orders", key="id int", schema="item string, amount decimal(10, 2), at timestamp",
    format="connect_json", key_format="connect_json", event_time="at",
)  # fmt: skip
visits_in_avro = lh.stream(
    "visits", key="id bigint", format="avro", key_format="avro",
    schema="city string, cost decimal(8, 2), at timestamp, tags array<string>, home struct<zip: int>",
    event_time="at",
)  # fmt: skip
visits_in_protobuf = lh.stream(
    "pb-visits", key="id bigint", format="protobuf", key_format="protobuf",
    schema="city string, cost decimal(8, 2), at timestamp, tags array<string>, home struct<zip: int>",
    event_time="at",
)  # fmt: skip
visits_in_json = lh.stream(
    "sr-visits", key="id bigint", format="json_sr", key_format="json_sr",
    schema="city string, cost decimal(8, 2), at timestamp, tags array<string>, home struct<zip: int>",
    event_time="at",
)  # fmt: skip


def a_database_s_table_in_avro() -> lh.App:
    return lh.app(customers_in_avro.latest("customers"))


def a_table_of_connect() -> lh.App:
    return lh.app(rows_of_connect.latest("orders_of_jdbc"))


def tables_of_avro() -> lh.App:
    return tables_of(visits_in_avro)


def tables_of_protobuf() -> lh.App:
    return tables_of(visits_in_protobuf)


def tables_of_registered_json() -> lh.App:
    return tables_of(visits_in_json)


def tables_of(stream: lh.Stream) -> lh.App:
    per_city = stream.group_by("city").agg(n=lh.count(), cost=lh.sum("cost")).table("per_city")
    return lh.app(stream.select("city", "home.zip AS zip", "size(tags) AS tags").latest("visited"), per_city)


def merges_what_differs() -> lh.App:
    return lh.app(trains.merge(texts).latest("never"))


def merges_another_type() -> lh.App:
    return lh.app(trains.merge(boats.cast(n="int")).latest("never"))


def branches_nowhere() -> lh.App:
    return lh.app(trains.branch()[0].latest("never"))


def renames_the_key() -> lh.App:
    return lh.app(trains.rename(id="name").latest("never"))


def casts_to_nothing_known() -> lh.App:
    return lh.app(trains.cast(n="interval").latest("never"))


def drops_everything() -> lh.App:
    return lh.app(trains.drop("city", "n").latest("never"))


def maps_over_nothing() -> lh.App:
    return lh.app(trains.map("half", half, type="bigint").latest("never"))


def maps_the_key() -> lh.App:
    return lh.app(trains.map("id", half, "n", type="bigint").latest("never"))
