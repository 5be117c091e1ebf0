"""The demo's application: four tables and a changelog topic over the topics of ``flights.py``.

    location           per plane: where its last flight that left went, and when
    visits             per plane: how many flights left, and their miles
    airborne           the planes in the air: a landing is a tombstone and deletes the row
    planes             reference data, per plane
    visits-changelog   every change of visits, as a Kafka topic

Everything is keyed by tail number, the planes' registration. Flights without one have a null key: they reach no table.
"""

from __future__ import annotations

import lakehouse as lh

flights = lh.stream(
    "flights",
    key="tailnum string",
    format="json",
    schema=(
        "carrier string, flight int, origin string, dest string, scheduled_at timestamp, "
        "departed_at timestamp, dep_delay double, sched_arr_time int, arr_time int, arr_delay double, "
        "air_time double, distance int, cancelled boolean"
    ),
)
airborne_stream = lh.stream(
    "airborne",
    key="tailnum string",
    format="json",
    schema=(
        "carrier string, flight int, origin string, dest string, took_off_at timestamp, lands_at timestamp, "
        "distance int"
    ),
)
planes_stream = lh.stream(
    "planes",
    key="tailnum string",
    format="json",
    schema=(
        "year int, type string, manufacturer string, model string, engines int, seats int, speed int, engine string"
    ),
)

flown = flights.filter("NOT cancelled")

location = flown.select("tailnum", "dest", "departed_at").latest("location")
visits = flown.group_by("tailnum").agg(flights=lh.count(), miles=lh.sum("distance")).table("visits")
airborne = airborne_stream.latest("airborne")
planes = planes_stream.latest("planes")

app = lh.app(location, visits, airborne, planes, visits.changes().to_topic("visits-changelog"))
