"""Applications of the scenario files about alerts. `alert_id` holds a tick, which differs between batchings."""

from __future__ import annotations

import lakehouse as lh
from lakehouse.plan.app import App

numbers = lh.stream("numbers", key="id string", schema="room string, n bigint")
rooms = numbers.group_by("room").agg(total=lh.sum("n")).table("rooms")
last = numbers.latest("last")

above = lh.app(rooms.alert("above", "total > 10", on="both").drop("alert_id").to_topic("above"))
alerts = rooms.alert("high", "total > 10").merge(rooms.alert("low", "total > 10", on="leave"))
counted = alerts.group_by("alert AS name").agg(n=lh.count(), room=lh.latest("room")).table("counted")
merged = lh.app(counted, counted.alert("often", "n >= 2").select("crossing", "before", "after").to_topic("often"))
there = lh.app(last.alert("there", on="both").select("crossing", "before.n AS was", "after.n AS n").to_topic("there"))
busy = numbers.group_by("room").agg(n=lh.count()).having("n > 1").table("busy")
qualifies = lh.app(busy.alert("busy").drop("alert_id").to_topic("busy"))
seconds = lh.hopping("1 second", advance="500 milliseconds", grace="1 hour")
seconds_of_rooms = numbers.group_by("room").window(seconds).agg(n=lh.count()).table("seconds_of_rooms")
windows = lh.app(seconds_of_rooms.alert("crowd", "n = 2").select("crossing", "after").to_topic("crowd"))

# Over a join, and sums of its rows: one record changes many rows, and a sum several times.
people = lh.stream("people", key="id string", schema="city string, owes bigint").latest("people")
cities = lh.stream("cities", key="name string", schema="country string").latest("cities")
placed = people.join(cities, on="city", how="left").table("placed")
countries = placed.group_by("country").agg(people=lh.count(), owes=lh.sum("owes")).table("countries")
visits = lh.stream("visits", key="id string", schema="to string").join(countries, on="to", how="left")
joined = lh.app(
    countries.alert("indebted", "owes > 10", on="both").drop("alert_id").to_topic("indebted"),
    placed.alert("abroad", "country != 'it'", on="both")
    .select("crossing", "before.country AS was", "after.country AS country").to_topic("abroad"),
    visits.to_topic("visits-with-sums"),
)  # fmt: skip


def record() -> App:
    return lh.app(rooms.alert("late", "rowtime > 0").to_topic("late"))


def leaves_with_time() -> App:
    kept = numbers.group_by("room").window(lh.tumbling("1 hour", grace="0 seconds")).agg(n=lh.count())
    return lh.app(kept.table("kept", retention="1 day").alert("gone", on="leave").to_topic("gone"))


def no_crossing() -> App:
    return lh.app(rooms.alert("above", "total > 10", on="rises").to_topic("above"))


def same_name() -> App:
    named = lh.stream("named", key="alert string", schema="n bigint").latest("named")
    return lh.app(named.alert("above", "n > 10").to_topic("above"))
