"""The applications that the scenario files beside this one name: "app": "apps:city_latest"."""

from __future__ import annotations

import lakehouse as lh

# (alice, Paris) (bob, Sydney) ...: the worked example of the documentation.
cities = lh.stream("cities", key="name string", schema="city string")
city_latest = lh.app(cities.latest("location"))
city_count = lh.app(cities.group_by("name").agg(n=lh.count()).table("visits"))
city_both = lh.app(
    cities.latest("location").changes().to_topic("location-changelog"),
    cities.group_by("name").agg(n=lh.count()).table("visits").changes().to_topic("visits-changelog"),
)
visitors_by_city = lh.app(cities.rekey("city").group_by("city").agg(visitors=lh.count()).table("visitors"))

# (k1, 2) (k1, 5): a stream's sum, and the topic read as a table.
numbers = lh.stream("numbers", key="id string", schema="n bigint, label string")
number_sum = lh.app(numbers.group_by("id").agg(total=lh.sum("n")).table("totals"))
number_latest = lh.app(numbers.latest("newest"))
number_counts = lh.app(
    numbers.group_by("id")
    .agg(records=lh.count(), numbers=lh.count("n"), labels=lh.count("label"), total=lh.sum("n"))
    .table("counts")
)
number_by_label = lh.app(numbers.group_by("label").agg(records=lh.count(), total=lh.sum("n")).table("labels"))
number_by_two = lh.app(numbers.group_by("id", "label").agg(records=lh.count()).table("pairs"))
number_by_parity = lh.app(numbers.group_by("n % 2 AS parity").agg(records=lh.count()).table("parities"))

# Stateless steps, published to a topic.
big_numbers = lh.app(numbers.filter("n > 10").to_topic("big"))
big_latest = lh.app(numbers.filter("n > 10 OR label = 'keep'").latest("big"))
projected = lh.app(numbers.select("n + 1 AS next", "upper(label) AS label").to_topic("projected"))
rekeyed = lh.app(numbers.rekey("label").to_topic("rekeyed"))
rekeyed_by_key = lh.app(numbers.rekey("upper(id) AS shout").to_topic("shouted"))
rekeyed_failing = lh.app(numbers.rekey("cast(label AS int) AS number").to_topic("numbered"))
rekeyed_counted = lh.app(numbers.rekey("label").group_by("label").agg(records=lh.count()).table("labels"))
rekeyed_latest = lh.app(numbers.rekey("label").latest("by_label"))
placed = lh.app(numbers.select("n", "rowtime AS at", "rowpartition AS p", "rowoffset AS o").to_topic("placed"))

# A struct as a group, and a key of several columns.
people = lh.stream("people", key="id string", schema="who struct<first: string, last: string>, amount decimal(10, 2)")
people_count = lh.app(people.group_by("who").agg(records=lh.count(), spent=lh.sum("amount")).table("people_count"))
struct_keyed = lh.stream("structs", key="who struct<first: string, last: string>", schema="city string")
struct_latest = lh.app(struct_keyed.latest("homes"))
pair_keyed = lh.stream("pairs", key="country string, code int", schema="city string")
pair_latest = lh.app(pair_keyed.latest("places"))

# Every format, with bad records among the good ones.
typed = lh.stream(
    "typed",
    key="id string",
    schema=(
        "i int, d double, m decimal(6, 2), b boolean, t timestamp, day date, raw binary, "
        "list array<int>, inner struct<x: int>"
    ),
)
typed_latest = lh.app(typed.latest("typed_latest"))
lines = lh.stream(
    "lines",
    key="id string",
    schema="city string, n int, price decimal(6, 2), on_day date",
    format="delimited",
)
lines_latest = lh.app(lines.latest("lines_latest"))
longs = lh.stream("longs", key="id int", schema="v bigint", format="kafka")
longs_both = lh.app(longs.latest("longs_latest"), longs.group_by("id").agg(total=lh.sum("v")).table("longs_sum"))
doubles = lh.stream("doubles", key="id string", schema="v double")
doubles_sum = lh.app(doubles.group_by("id").agg(total=lh.sum("v")).table("doubles_sum"))

# Event time from a column.
rides = lh.stream("rides", key="id string", schema="city string, at timestamp", event_time="at")
rides_both = lh.app(rides.latest("last_ride"), rides.group_by("id").agg(n=lh.count()).table("ride_count"))
arrivals_count = lh.app(cities.latest("location"), cities.group_by("name").agg(n=lh.count()).table("visits"))

# Two topics into one application.
planes = lh.stream("planes", key="name string", schema="city string")
two_topics = lh.app(cities.latest("location"), planes.latest("hangar"))


def asks_the_clock() -> lh.App:
    return lh.app(numbers.select("n", "current_timestamp() AS at").to_topic("out"))


def reads_what_is_not_there() -> lh.App:
    return lh.app(numbers.group_by("town").agg(n=lh.count()).table("towns"))


def sums_text() -> lh.App:
    return lh.app(numbers.group_by("id").agg(total=lh.sum("label")).table("totals"))
